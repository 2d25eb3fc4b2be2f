package config_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProxies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		application, trusted string
		want                 string
	}{
		{"", "", "{false []}"},
		{`{}`, "", "{true []}"},
		{"", "10.0.0.0/8, 192.0.2.1,fd00::1", "{false [10.0.0.0/8 192.0.2.1/32 fd00::1/128]}"},
		{`{}`, "::ffff:10.1.2.3, 10.1.2.3/8", "{true [10.1.2.3/32 10.0.0.0/8]}"},
	} {
		cfg, err := readWith(t, map[string]string{"VCAP_APPLICATION": c.application, "TRUSTED_PROXIES": c.trusted})
		got := fmt.Sprint(cfg.Proxies)
		assert.True(t, err == nil && got == c.want, "%q %q: %s, %v, want %s", c.application, c.trusted, got, err, c.want)
	}
}

func TestProfilesAreForThisHostAlone(t *testing.T) {
	t.Parallel()
	for address, good := range map[string]bool{
		"": true, "127.0.0.1:6060": true, "[::1]:0": true, "127.1.2.3:80": true,
		"0.0.0.0:6060": false, ":6060": false, "[::]:6060": false, "10.0.0.1:6060": false, "localhost:6060": false,
		"127.0.0.1": false, "127.0.0.1:http": false, "6060": false, "[::ffff:10.0.0.1]:6060": false,
	} {
		cfg, err := readWith(t, map[string]string{"PPROF_ADDRESS": address})
		assert.False(t, good && (err != nil || cfg.Pprof != address), "%q: %q, %v", address, cfg.Pprof, err)
		assert.False(t, !good && (err == nil || !strings.Contains(err.Error(), "PPROF_ADDRESS is not a loopback address")),
			"%q: %v", address, err)
	}
}

func TestExternalURL(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ set, application, want string }{
		{"", "", ""},
		{"https://broker.example.com", "", "https://broker.example.com"},
		{"https://broker.example.com:8443/", "", "https://broker.example.com:8443"},
		{"http://127.0.0.1:8080", "", "http://127.0.0.1:8080"},
		{"http://localhost:8080", "", "http://localhost:8080"},
		{"http://[::1]:8080", "", "http://[::1]:8080"},
		{"", `{"application_uris":["broker.example.com","other.example.com"]}`, "https://broker.example.com"},
		{"", `{"application_uris":["shared.example.com/broker","broker.example.com"]}`, "https://broker.example.com"},
		{"", `{"application_uris":[]}`, ""},
		{"https://chosen.example.com", `{"application_uris":["broker.example.com"]}`, "https://chosen.example.com"},
	} {
		cfg, err := readWith(t, map[string]string{"EXTERNAL_URL": tt.set, "VCAP_APPLICATION": tt.application})
		if !assert.NoError(t, err, "%+v", tt) {
			continue
		}
		got := ""
		if cfg.ExternalURL != nil {
			got = cfg.ExternalURL.String()
		}
		assert.Equal(t, tt.want, got, "%+v", tt)
	}
}

func TestExternalURLThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"broker.example.com", "https://", "https://a.example.com/broker", "https://a?b",
		"https://a#b", "https://user:" + secret + "@a", "http://broker.example.com", "http://10.0.0.1", "ftp://a", "%"} {
		expectProblems(t, text, map[string]string{"EXTERNAL_URL": text}, []string{"EXTERNAL_URL"})
	}
}

func TestSignInOnCloudFoundry(t *testing.T) {
	t.Parallel()
	cfg, err := readWith(t, map[string]string{"DASHBOARD_CLIENT_ID": "mysql", "DASHBOARD_CLIENT_SECRET": secret,
		"VCAP_APPLICATION": `{"application_uris":["broker.example.com"],"cf_api":"https://api.example.com"}`})
	require.NoError(t, err)
	s := cfg.SignIn
	assert.True(t, s.Provider.ClientID == "mysql" && s.Provider.ClientSecret == secret && s.InCatalog &&
		s.Provider.Issuer == "" && s.CloudController == "https://api.example.com" && s.OperatorGroup == "" &&
		slices.Equal(s.Provider.Scopes, []string{"openid", "cloud_controller_service_permissions.read"}), "%+v", s)
}

func TestSignInElsewhere(t *testing.T) {
	t.Parallel()
	env := complete(t)
	maps.Copy(env, map[string]string{"OIDC_CLIENT_ID": "mysql", "OIDC_CLIENT_SECRET": secret,
		"OIDC_ISSUER": "https://id.example.com/realms/ops/", "DASHBOARD_OPERATOR_GROUP": "dba",
		"EXTERNAL_URL": "https://broker.example.com"})
	cfg, err := read(t, env)
	require.NoError(t, err)
	s := cfg.SignIn
	assert.True(t, s.Provider.ClientID == "mysql" && !s.InCatalog &&
		s.Provider.Issuer == "https://id.example.com/realms/ops/" && s.CloudController == "" && s.OperatorGroup == "dba" &&
		slices.Equal(s.Provider.Scopes, []string{"openid", "profile"}), "%+v", s)
	maps.Copy(env, map[string]string{"OIDC_SCOPES": " openid  groups ", "CLOUD_CONTROLLER_URL": "https://api.example.com/"})
	cfg, err = read(t, env)
	require.NoError(t, err)
	assert.Equal(t, "https://api.example.com", cfg.SignIn.CloudController)
	assert.Equal(t, []string{"openid", "groups"}, cfg.SignIn.Provider.Scopes)
}
