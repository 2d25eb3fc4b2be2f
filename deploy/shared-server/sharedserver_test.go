package sharedserver_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	sharedserver "mysql-broker/deploy/shared-server"
)

// What the servers make of it, package mysqladmin tests.
func TestFiles(t *testing.T) {
	t.Parallel()
	for _, flavour := range []string{"mysql", "mariadb"} {
		statements, err := sharedserver.Statements(flavour, "s3cret")
		assert.True(t, err == nil && len(statements) >= 3 &&
			strings.HasPrefix(statements[0], "CREATE USER IF NOT EXISTS '"+sharedserver.Account+"'@") &&
			strings.Contains(statements[0], "'s3cret'"), "%s: %q, %v", flavour, statements, err)
		for _, s := range statements {
			assert.False(t, strings.HasSuffix(s, ";") || strings.Contains(s, "PASSWORD") || strings.HasPrefix(s, "--"),
				"%s: the statement %q", flavour, s)
		}
		settings, err := sharedserver.Settings(flavour)
		assert.True(t, err == nil && len(settings) != 0, "%s: %q, %v", flavour, settings, err)
		for _, s := range settings {
			name, _, ok := strings.Cut(s, "=")
			assert.True(t, ok && !strings.ContainsAny(name, "#[ "), "%s: the setting %q", flavour, s)
		}
	}
	_, err := sharedserver.Statements("oracle", "")
	assert.Error(t, err, "there are statements for oracle")
	_, err = sharedserver.Settings("oracle")
	assert.Error(t, err, "there are settings for oracle")
}
