package operators

import (
	"maps"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"mysql-broker/test/openid"
	"mysql-broker/test/testdrive"
)

const whoIsSignedIn = "/dashboard/sign-in/"

// TestSignInOnCloudFoundry registers the dashboard's client by the catalog, signs a developer in, and replaces the
// broker.
func TestSignInOnCloudFoundry(t *testing.T) {
	t.Parallel()
	provider := openid.Start(t, openid.Options{})
	cloud := openid.StartCloudController(t, provider)
	env := testdrive.AnyEnvironment(t)
	env["PORT"] = strconv.Itoa(testdrive.FreePort(t))
	url := "http://127.0.0.1:" + env["PORT"]
	maps.Copy(env, map[string]string{"EXTERNAL_URL": url, "DASHBOARD_CLIENT_ID": openid.ClientID,
		"DASHBOARD_CLIENT_SECRET": openid.ClientSecret, "DASHBOARD_OPERATOR_GROUP": openid.OperatorGroup,
		"VCAP_APPLICATION": testdrive.Encode(t, map[string]any{"application_name": "mysql-broker", "cf_api": cloud.URL})})
	b := testdrive.Start(t, env)

	services, _ := b.Do(t, "GET", "/v2/catalog", nil).Expect(t, http.StatusOK).Body["services"].([]any)
	client, _ := services[0].(map[string]any)["dashboard_client"].(map[string]any)
	if want := map[string]any{"id": openid.ClientID, "secret": openid.ClientSecret,
		"redirect_uri": url + "/dashboard/sign-in/callback," + url + "/dashboard/sign-in/out"}; !maps.Equal(client, want) {
		t.Errorf("the catalog has the dashboard client %v", client)
	}

	seen := testdrive.Run(t, map[string]string{"BROKER_URL": url, "BROKER_USERNAME": b.Username, "BROKER_PASSWORD": b.Password,
		"MYSQL_BROKER_CLIENT_STATE": filepath.Join(t.TempDir(), "client.json")}, "client", "catalog", "--json").Expect(t, 0).Stdout
	if !strings.Contains(seen, openid.ClientID) || strings.Contains(seen, openid.ClientSecret) {
		t.Errorf("the client prints the catalog with a secret, or without the dashboard's client: %s", seen)
	}

	developer, operator := openid.NewBrowser(t), openid.NewBrowser(t)
	developer.LogIn(t, url+whoIsSignedIn, openid.Developer).Expect(t, http.StatusOK, "You are signed in as dora.")
	operator.LogIn(t, url+whoIsSignedIn, openid.Operator).Expect(t, http.StatusOK, "As an operator you see all")
	cookie := developer.Cookies(t, url, "session")[0].Value

	b.Signal(t, syscall.SIGTERM)
	b.Wait(t)
	for _, secret := range []string{openid.ClientSecret, cookie, "eyJ"} {
		if strings.Contains(b.Log(), secret) {
			t.Errorf("the log has the secret %q:\n%s", secret, b.Log())
		}
	}
	testdrive.Start(t, env)
	developer.Open(t, url+whoIsSignedIn).Expect(t, http.StatusOK, "You are signed in as dora.")
	operator.Open(t, url+whoIsSignedIn).Expect(t, http.StatusOK, "As an operator you see all")
}

// expectLinkSignsIn opens the link that a broker on one's own machine prints.
func expectLinkSignsIn(t *testing.T, dev *testdrive.Broker) {
	t.Helper()
	link := strings.TrimSpace(dev.AwaitLog(t, whoIsSignedIn+"link?token="))
	if !strings.HasPrefix(link, dev.URL) {
		t.Fatalf("the link is %q", link)
	}
	b := openid.NewBrowser(t)
	b.Until("/dashboard/")
	if p := b.Open(t, link); p.Status != http.StatusSeeOther {
		t.Errorf("the link was answered %d: %s", p.Status, p.Text)
	}
	b.Open(t, dev.URL+whoIsSignedIn).Expect(t, http.StatusOK, "As an operator you see all")
	b.Open(t, link).Expect(t, http.StatusForbidden, "This link is not valid, or no longer.")
}
