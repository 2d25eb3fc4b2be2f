package deploy

import (
	"encoding/json"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
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
		maps.Copy(env, more)
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
	assert.True(t, slices.ContainsFunc(config.Variables, func(v config.Variable) bool { return v.Name == name }),
		"%s: the broker knows no %s", file, name)
}

var (
	variable  = regexp.MustCompile(`\(\(([^)]*)\)\)`)
	commented = regexp.MustCompile(`(?m)^( *)#([A-Za-z_-]+: )`)
)

// uncommented is a YAML file with the lines that are commented out.
func uncommented(t *testing.T, name string) string {
	return commented.ReplaceAllString(readFile(t, name), "$1$2")
}

// cf push asks for every variable of the manifest, and refuses none that is too many: they must not drift apart.
func TestManifestsVariables(t *testing.T) {
	t.Parallel()
	var wanted []string
	for _, m := range variable.FindAllStringSubmatch(uncommented(t, "manifest.yml"), -1) {
		wanted = append(wanted, m[1])
	}
	var given map[string]string
	require.NoError(t, yaml.UnmarshalWithOptions([]byte(uncommented(t, "deploy/cloudfoundry/vars.example.yml")), &given,
		yaml.Strict()))
	for _, name := range wanted {
		_, ok := given[name]
		assert.True(t, ok, "vars.example.yml lacks %s", name)
	}
	for name := range given {
		assert.True(t, slices.Contains(wanted, name), "manifest.yml does not use %s", name)
	}
}

// The environment in the manifest works as soon as the variables are filled in, commented lines included.
func TestManifestsEnvironment(t *testing.T) {
	t.Parallel()
	keyset, err := store.NewKeyset()
	require.NoError(t, err)
	text := strings.ReplaceAll(uncommented(t, "manifest.yml"), "((encryption-keyset))", "'"+keyset+"'")
	var manifest struct {
		Applications []struct{ Env map[string]string }
	}
	require.NoError(t, yaml.Unmarshal([]byte(variable.ReplaceAllString(text, "secret")), &manifest))
	env := manifest.Applications[0].Env
	for name := range env {
		expectVariable(t, "manifest.yml", name)
	}
	env["VCAP_APPLICATION"] = `{"application_name":"mysql-broker","cf_api":"https://api.example.com"}`
	// Those of bound services:
	env["DATABASE_URL"] = "postgres://broker@127.0.0.1/broker"
	env["MYSQL_SERVERS"] = `[{"name":"shared-1","uri":"mysql://mysql_broker:PASSWORD@127.0.0.1:3306/"}]`
	env["LAUNCHER_NAMESPACE"], env["LAUNCHER_API"], env["LAUNCHER_API_TOKEN"] = "mysql-servers", "https://127.0.0.1:6443", "token"
	_, err = config.FromEnvironment(func(name string) string { return env[name] })
	assert.NoError(t, err)
}

// rule is one of a security group. https://docs.cloudfoundry.org/concepts/asg.html
type rule struct {
	Protocol    string `json:"protocol"`
	Destination string `json:"destination"`
	Ports       string `json:"ports"`
	Description string `json:"description"`
}

func TestSecurityGroups(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"broker", "apps"} {
		decoder := json.NewDecoder(strings.NewReader(readFile(t, "deploy/cloudfoundry/security-group-"+file+".json")))
		decoder.DisallowUnknownFields()
		var rules []rule
		err := decoder.Decode(&rules)
		require.True(t, err == nil && len(rules) != 0, "%s: %v, %v", file, rules, err)
		for _, r := range rules {
			var addresses []netip.Addr
			for end := range strings.SplitSeq(r.Destination, "-") {
				addresses = append(addresses, netip.MustParseAddr(end))
			}
			var ports []uint64
			for end := range strings.SplitSeq(r.Ports, "-") {
				port, err := strconv.ParseUint(end, 10, 16)
				assert.NoError(t, err)
				ports = append(ports, port)
			}
			assert.True(t, r.Protocol == "tcp" && r.Description != "" && ports[0] > 0 && slices.IsSorted(ports) &&
				slices.IsSortedFunc(addresses, netip.Addr.Compare), "%s: Cloud Controller would refuse %+v", file, r)
		}
	}
}
