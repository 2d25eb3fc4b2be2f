package e2e

import (
	"net/http"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

var (
	asksNothing  = body{}
	asksOptional = body{"parameters": body{"tls": "optional"}}
	asksRequired = body{"parameters": body{"tls": "required"}}
)

// expectTLSOnly fails the test unless the account can log in with TLS, and not without.
func expectTLSOnly(t *testing.T, c credentials) {
	t.Helper()
	checkTLS(t, c)
	expectRefused(t, c.plain(t))
	c.open(t).Close()
}

// expectEither fails the test unless the account can log in with TLS and without. Without comes first: for a login with
// TLS, MySQL remembers what spares the next one to send the password.
func expectEither(t *testing.T, c credentials) {
	t.Helper()
	open(t, c.plain(t)).Close()
	checkTLS(t, c)
	c.open(t).Close()
}

// A plan says whether accounts require TLS, and a binding may ask for more, but not for less.
func TestTLSOfBindings(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		env := testdrive.Environment(t, server)
		env["CATALOG"] = catalogRequiringTLS(t, "shared-large")
		p := startPlatform(t, server, env)
		optional, required := p.provisioned(t, "shared-small", nil), p.provisioned(t, "shared-large", nil)
		for name, test := range map[string]struct {
			instance instance
			asked    body
			expect   func(*testing.T, credentials)
			same     []body // asks for the same in other words
			another  []body
		}{
			"optional":             {optional, asksNothing, expectEither, []body{asksOptional}, []body{asksRequired}},
			"optional and said so": {optional, asksOptional, expectEither, []body{asksNothing}, []body{asksRequired}},
			"more than the plan":   {optional, asksRequired, expectTLSOnly, nil, []body{asksNothing, asksOptional}},
			"required":             {required, asksNothing, expectTLSOnly, []body{asksRequired}, []body{asksOptional}},
		} {
			t.Run(name, func(t *testing.T) {
				b, c := test.instance.bound(t, test.asked)
				test.expect(t, c)
				fetched := b.fetch(t).Expect(t, http.StatusOK)
				if p.credentials(t, fetched) != c {
					t.Error("the fetched credentials are others")
				}
				if asked := test.asked["parameters"]; asked != nil && field(fetched.Body, "parameters", "tls") != asked.(body)["tls"] {
					t.Errorf("the fetched parameters are %v", fetched.Body["parameters"])
				}
				for _, same := range append(test.same, test.asked) {
					if p.credentials(t, b.bind(t, same).Expect(t, http.StatusOK)) != c {
						t.Errorf("repeated with %v: other credentials", same)
					}
				}
				for _, another := range test.another {
					b.bind(t, another).Expect(t, http.StatusConflict)
				}
			})
		}
		expectRefusal(t, required.newBinding().bind(t, asksOptional), http.StatusBadRequest, `"tls"`, "shared-large",
			"requires TLS")
		expectRefusal(t, optional.newBinding().bind(t, body{"parameters": body{"tls": "none"}}), http.StatusBadRequest,
			`"tls"`, "required")
	})
}

// Bindings keep their tls setting when their instance gets a plan with another one.
func TestTLSOutlivesThePlan(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, server servers.MySQL) {
		env := testdrive.Environment(t, server)
		env["CATALOG"] = catalogRequiringTLS(t, "shared-large")
		i := startPlatform(t, server, env).provisioned(t, "shared-small", nil)
		made, c := i.bound(t, asksNothing)
		_, asked := i.bound(t, asksRequired)

		i.updatePlan(t, now, "shared-large").Expect(t, http.StatusOK) // which changes the accounts' connection limit
		expectEither(t, c)
		expectTLSOnly(t, asked)
		_, i.planID = testdrive.Plan(t, "shared-large")
		made.instance = i
		if i.credentials(t, made.bind(t, asksNothing).Expect(t, http.StatusOK)) != c {
			t.Error("the repeated bind got other credentials")
		}
		_, later := i.bound(t, asksNothing)
		expectTLSOnly(t, later)

		i.updatePlan(t, now, "shared-small").Expect(t, http.StatusOK)
		expectTLSOnly(t, later)
		expectEither(t, c)
	})
}

// On a server that refuses logins without TLS, credentials require TLS, whatever the plan says.
func TestServerThatRequiresTLS(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		private := testdrive.Private(t, server.Flavour)
		exec(t, platform{server: private}.admin(t), "SET GLOBAL require_secure_transport = ON")
		p := startWith(t, private, described("private", private))
		p.AwaitLog(t, `"tls_only":true`)
		i := p.provisioned(t, "shared-small", nil)
		_, c := i.bound(t, asksNothing)
		_, required := i.bound(t, asksRequired)
		expectTLSOnly(t, c)
		if parseURL(t, c.URI).RawQuery == "" || parseURL(t, c.URI).RawQuery != parseURL(t, required.URI).RawQuery {
			t.Errorf("the uri does not carry what one of a binding that requires TLS does")
		}
	})
}

// If a server offers no TLS, a binding that requires TLS is refused, because nobody could use it.
func TestServerWithoutTLS(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		proxy := testdrive.NewProxy(t, server.Address())
		proxy.HideTLS()
		plain := server
		plain.Port, plain.CA = proxy.Port(), ""
		p := startWith(t, plain, described("plain", plain))
		p.AwaitLog(t, "connections to the shared server, those of applications included, are not encrypted")
		i := p.provisioned(t, "shared-small", nil)
		expectRefusal(t, i.newBinding().bind(t, asksRequired), http.StatusBadRequest, "offers no TLS")
		_, c := i.bound(t, asksNothing)
		if c.TLS {
			t.Error("the credentials have TLS")
		}
		c.open(t).Close()
	})
}
