package sharedserver_test

import (
	"strings"
	"testing"

	sharedserver "mysql-broker/deploy/shared-server"
)

// What the servers make of it, package mysqladmin tests.
func TestFiles(t *testing.T) {
	t.Parallel()
	for _, flavour := range []string{"mysql", "mariadb"} {
		statements, err := sharedserver.Statements(flavour, "s3cret")
		if err != nil || len(statements) < 3 || !strings.HasPrefix(statements[0], "CREATE USER IF NOT EXISTS '"+sharedserver.Account+"'@") ||
			!strings.Contains(statements[0], "'s3cret'") {
			t.Errorf("%s: %q, %v", flavour, statements, err)
		}
		for _, s := range statements {
			if strings.HasSuffix(s, ";") || strings.Contains(s, "PASSWORD") || strings.HasPrefix(s, "--") {
				t.Errorf("%s: the statement %q", flavour, s)
			}
		}
		settings, err := sharedserver.Settings(flavour)
		if err != nil || len(settings) == 0 {
			t.Errorf("%s: %q, %v", flavour, settings, err)
		}
		for _, s := range settings {
			if name, _, ok := strings.Cut(s, "="); !ok || strings.ContainsAny(name, "#[ ") {
				t.Errorf("%s: the setting %q", flavour, s)
			}
		}
	}
	if _, err := sharedserver.Statements("oracle", ""); err == nil {
		t.Error("there are statements for oracle")
	}
	if _, err := sharedserver.Settings("oracle"); err == nil {
		t.Error("there are settings for oracle")
	}
}
