package testdrive

import (
	"strconv"
	"testing"

	"mysql-broker/test/openid"
)

// Dashboard has what a broker's dashboard needs for its sign-in: an OpenID provider and a fake Cloud Controller.
type Dashboard struct {
	URL      string // of the broker, as browsers see it
	Provider *openid.Provider
	Cloud    *openid.CloudController
}

// NewDashboard makes brokers started in env serve a dashboard. Only one of them can run at a time, because NewDashboard
// chooses its port.
func NewDashboard(t testing.TB, env map[string]string) Dashboard {
	t.Helper()
	port := strconv.Itoa(FreePort(t))
	d := Dashboard{URL: "http://127.0.0.1:" + port, Provider: openid.Start(t, openid.Options{})}
	d.Cloud = openid.StartCloudController(t, d.Provider)
	env["PORT"], env["EXTERNAL_URL"] = port, d.URL
	env["OIDC_CLIENT_ID"], env["OIDC_CLIENT_SECRET"] = openid.ClientID, openid.ClientSecret
	env["OIDC_ISSUER"], env["CLOUD_CONTROLLER_URL"] = d.Provider.Issuer, d.Cloud.URL
	env["DASHBOARD_OPERATOR_GROUP"] = openid.OperatorGroup
	return d
}
