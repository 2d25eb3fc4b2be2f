package config_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSignInOnCloudFoundry(t *testing.T) {
	t.Parallel()
	env := complete(t)
	maps.Copy(env, map[string]string{"DASHBOARD_CLIENT_ID": "mysql", "DASHBOARD_CLIENT_SECRET": secret,
		"VCAP_APPLICATION": `{"application_uris":["broker.example.com"],"cf_api":"https://api.example.com"}`})
	cfg, err := read(t, env)
	require.NoError(t, err)
	s := cfg.SignIn
	if s.Provider.ClientID != "mysql" || s.Provider.ClientSecret != secret || !s.InCatalog || s.Provider.Issuer != "" ||
		s.CloudController != "https://api.example.com" || s.OperatorGroup != "" ||
		!slices.Equal(s.Provider.Scopes, []string{"openid", "cloud_controller_service_permissions.read"}) {
		t.Errorf("%+v", s)
	}
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
	if s.Provider.ClientID != "mysql" || s.InCatalog || s.Provider.Issuer != "https://id.example.com/realms/ops/" ||
		s.CloudController != "" || s.OperatorGroup != "dba" ||
		!slices.Equal(s.Provider.Scopes, []string{"openid", "profile"}) {
		t.Errorf("%+v", s)
	}
	maps.Copy(env, map[string]string{"OIDC_SCOPES": " openid  groups ", "CLOUD_CONTROLLER_URL": "https://api.example.com/"})
	if cfg, err = read(t, env); err != nil || cfg.SignIn.CloudController != "https://api.example.com" ||
		!slices.Equal(cfg.SignIn.Provider.Scopes, []string{"openid", "groups"}) {
		t.Errorf("%+v, %v", cfg.SignIn, err)
	}
}

func TestSignInThatCannotWork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change map[string]string
		want   []string
	}{
		{"a client alone", map[string]string{"OIDC_CLIENT_ID": "mysql", "OIDC_CLIENT_SECRET": secret},
			[]string{"EXTERNAL_URL is not set", "OIDC_ISSUER is not set", "nobody could see the dashboard"}},
		{"no secret", map[string]string{"DASHBOARD_CLIENT_ID": "mysql"},
			[]string{"of DASHBOARD_CLIENT_ID and DASHBOARD_CLIENT_SECRET, one is set"}},
		{"no name", map[string]string{"OIDC_CLIENT_SECRET": secret},
			[]string{"of OIDC_CLIENT_ID and OIDC_CLIENT_SECRET, one is set"}},
		{"two clients", map[string]string{"DASHBOARD_CLIENT_ID": "a", "DASHBOARD_CLIENT_SECRET": secret,
			"OIDC_CLIENT_ID": "b", "OIDC_CLIENT_SECRET": secret}, []string{"both DASHBOARD_CLIENT_ID and OIDC_CLIENT_ID"}},
		{"addresses that others could read along", map[string]string{"OIDC_CLIENT_ID": "a", "OIDC_CLIENT_SECRET": secret,
			"OIDC_ISSUER": "http://id.example.com", "CLOUD_CONTROLLER_URL": "https://u:" + secret + "@api.example.com"},
			[]string{"OIDC_ISSUER is not a URL", "CLOUD_CONTROLLER_URL is not a URL"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			expectProblems(t, tt.change, tt.want)
		})
	}
}
