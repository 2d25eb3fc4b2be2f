// Package openid hands tests an OpenID provider, in a process of its own, and a stand-in for Cloud Controller.
package openid

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// What every provider under test knows.
const (
	ClientID      = "mysql-dashboard"
	ClientSecret  = "a secret +/% of the client" // with what has to be escaped
	Password      = "verysecure"                 // of everybody
	Operator      = "olga"
	Developer     = "dora"
	Stranger      = "eve"
	OperatorGroup = "mysql-operators"
)

// Options change a provider; the zero value is an ordinary one.
type Options struct {
	Address  string // to listen on; default: any port of 127.0.0.1
	KeysAway bool   // whoever asks for the keys that tokens are signed with is answered 503
}

// Provider is a running OpenID provider.
type Provider struct {
	Issuer  string // ends with /oauth/token, as UAA's does
	process *testdrive.Broker
}

// URL is where the provider listens.
func (p *Provider) URL() string { return strings.TrimSuffix(p.Issuer, "/oauth/token") }

// Address is the host and port of URL.
func (p *Provider) Address() string { return strings.TrimPrefix(p.URL(), "http://") }

// build compiles the provider once for all tests of a run.
func build(t testing.TB) string {
	return servers.Made(t, "openid-provider", func(path string) error {
		mod, err := exec.Command("go", "env", "GOMOD").Output()
		if err != nil {
			return fmt.Errorf("go env GOMOD: %w", err)
		}
		command := exec.Command("go", "build", "-buildvcs=false", "-o", path, ".")
		command.Env = append(os.Environ(), "CGO_ENABLED=0") // also where the tests have the race detector
		command.Dir = filepath.Join(filepath.Dir(strings.TrimSpace(string(mod))), "test", "openid", "provider")
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
}

// Start runs a provider until the test ends.
func Start(t testing.TB, o Options) *Provider {
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	type user struct {
		Name, Password string
		Groups         []string
	}
	input, err := json.Marshal(map[string]any{"ClientID": ClientID, "ClientSecret": ClientSecret,
		"KeysAway": o.KeysAway, "Users": []user{
			{Operator, Password, append(manyGroups(), OperatorGroup)}, {Developer, Password, manyGroups()},
			{Stranger, Password, nil}}})
	require.NoError(t, err)
	cmd := exec.Command(build(t), "-listen", o.Address)
	stdin, err := cmd.StdinPipe() // open until this process ends, and the provider with it
	require.NoError(t, err)
	p := &Provider{process: testdrive.StartProcess(t, cmd)}
	_, err = stdin.Write(input)
	require.NoError(t, err)
	p.Issuer = p.process.AwaitLog(t, "http://") // it prints nothing else
	return p
}

// manyGroups make a token as large as UAA's may be: more than a cookie holds.
func manyGroups() (all []string) {
	for i := range 300 {
		all = append(all, fmt.Sprintf("a-group-that-somebody-is-in-%d", i))
	}
	return all
}

// Stop ends the provider, as a crash would.
func (p *Provider) Stop(t testing.TB) { p.process.Kill(t) }

// Dashboard has what a broker's dashboard needs for its sign-in: an OpenID provider and a stand-in for Cloud Controller.
type Dashboard struct {
	URL      string // of the broker, as browsers see it
	Provider *Provider
	Cloud    *CloudController
}

// NewDashboard makes brokers started in env serve a dashboard. Only one of them can run at a time, because NewDashboard
// chooses its port.
func NewDashboard(t testing.TB, env map[string]string) Dashboard {
	port := strconv.Itoa(testdrive.FreePort(t))
	d := Dashboard{URL: "http://127.0.0.1:" + port, Provider: Start(t, Options{})}
	d.Cloud = StartCloudController(t, d.Provider)
	env["PORT"], env["EXTERNAL_URL"] = port, d.URL
	env["OIDC_CLIENT_ID"], env["OIDC_CLIENT_SECRET"] = ClientID, ClientSecret
	env["OIDC_ISSUER"], env["CLOUD_CONTROLLER_URL"] = d.Provider.Issuer, d.Cloud.URL
	env["DASHBOARD_OPERATOR_GROUP"] = OperatorGroup
	return d
}
