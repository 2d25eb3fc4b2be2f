package deploy

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/store"
)

// What examples of an environment show works as soon as the secrets are filled in, commented lines included.
func TestExampleEnvironments(t *testing.T) {
	t.Parallel()
	for file, more := range map[string]map[string]string{
		"deploy/systemd/environment.example":           {"LAUNCHER": "process"}, // as the unit sets it
		"deploy/kubernetes/example/broker.env.example": {},
	} {
		env := example(t, file)
		for name, value := range more {
			env[name] = value
		}
		_, err := config.FromEnvironment(func(name string) string { return env[name] })
		assert.NoError(t, err, file)
	}
}

var (
	assignment = regexp.MustCompile(`(?m)^#?([A-Z_]+)=(.*)$`)
	// A certificate that is only hinted at.
	placeholder = regexp.MustCompile(`,"ca_certificate":"[^"]*…[^"]*"`)
)

func example(t *testing.T, file string) map[string]string {
	t.Helper()
	keyset, err := store.NewKeyset()
	require.NoError(t, err)
	env := map[string]string{}
	for _, m := range assignment.FindAllStringSubmatch(readFile(t, file), -1) {
		name, value := m[1], strings.Trim(m[2], "'")
		expectVariable(t, file, name)
		if strings.HasPrefix(name, "TLS_") {
			continue // files that are not here
		}
		env[name] = placeholder.ReplaceAllString(value, "")
	}
	for name, secret := range map[string]string{"BROKER_PASSWORD": "secret", "ENCRYPTION_KEYSET": keyset,
		"OIDC_CLIENT_SECRET": "secret", "BACKUP_ACCESS_KEY": "key", "BACKUP_SECRET_KEY": "secret"} {
		value, shown := env[name]
		assert.True(t, shown && value == "", "%s: %s is %q, and should be there to be filled in", file, name, value)
		env[name] = secret
	}
	return env
}

func expectVariable(t *testing.T, file, name string) {
	t.Helper()
	assert.True(t, slices.ContainsFunc(config.Variables, func(v config.Variable) bool { return v.Name == name }),
		"%s: the broker knows no %s", file, name)
}
