package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

var (
	asksNothing  = body{}
	asksOptional = body{"parameters": body{"tls": "optional"}}
	asksRequired = body{"parameters": body{"tls": "required"}}
)

// expectTLSOnly fails the test unless the account can log in with TLS, and not without.
func expectTLSOnly(t *testing.T, c testdrive.Credentials) {
	checkTLS(t, c)
	testdrive.ExpectRefused(t, c.Plain(t))
	c.Open(t).Close()
}

// expectEither fails the test unless the account can log in with TLS and without. Without comes first: for a login with
// TLS, MySQL remembers what spares the next one to send the password.
func expectEither(t *testing.T, c testdrive.Credentials) {
	testdrive.Open(t, c.Plain(t)).Close()
	checkTLS(t, c)
	c.Open(t).Close()
}

// A plan says whether accounts require TLS, and a binding may ask for more, but not for less. shared-large requires it.
func testTLSOfBindings(t *testing.T, p testdrive.Platform) {
	optional, required := p.Provisioned(t, "shared-small", nil), p.Provisioned(t, "shared-large", nil)
	for name, test := range map[string]struct {
		instance testdrive.Instance
		asked    body
		expect   func(*testing.T, testdrive.Credentials)
		same     []body // asks for the same in other words
		another  []body
	}{
		"optional":             {optional, asksNothing, expectEither, []body{asksOptional}, []body{asksRequired}},
		"optional and said so": {optional, asksOptional, expectEither, []body{asksNothing}, []body{asksRequired}},
		"more than the plan":   {optional, asksRequired, expectTLSOnly, nil, []body{asksNothing, asksOptional}},
		"required":             {required, asksNothing, expectTLSOnly, []body{asksRequired}, []body{asksOptional}},
	} {
		t.Run(name, func(t *testing.T) {
			b, c := test.instance.Bound(t, test.asked)
			test.expect(t, c)
			fetched := b.Fetch(t).Expect(t, http.StatusOK)
			assert.True(t, p.Credentials(t, fetched) == c, "the fetched credentials are others")
			if asked, ok := test.asked["parameters"].(body); ok {
				assert.Equal(t, asked["tls"], testdrive.Field(fetched.Body, "parameters", "tls"), "the fetched parameters")
			}
			for _, same := range append(test.same, test.asked) {
				assert.True(t, p.Credentials(t, b.Bind(t, same).Expect(t, http.StatusOK)) == c,
					"repeated with %v: other credentials", same)
			}
			for _, another := range test.another {
				b.Bind(t, another).Expect(t, http.StatusConflict)
			}
		})
	}
	testdrive.ExpectRefusal(t, required.NewBinding().Bind(t, asksOptional), http.StatusBadRequest, `"tls"`, "shared-large",
		"requires TLS")
}

// One of two servers refuses logins without TLS: credentials require TLS there, whatever the plan says. The other one offers
// no TLS: a binding that requires it is refused there, because nobody could use it.
func TestTLSOfServers(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	strict := testdrive.Private(t, server.Flavour)
	testdrive.Exec(t, testdrive.Platform{Server: strict}.Admin(t), "SET GLOBAL require_secure_transport = ON")
	proxy := testdrive.NewProxy(t, server.Address())
	proxy.HideTLS()
	plain := server
	plain.Port, plain.CA = proxy.Port(), ""
	p := testdrive.StartWith(t, strict, testdrive.Described("strict", strict), testdrive.Described("plain", plain))
	p.AwaitLog(t, `"tls_only":true`)
	p.AwaitLog(t, "connections to the shared server, those of applications included, are not encrypted")
	seen := map[bool]bool{}
	for range 2 { // the second instance is on the server that has none yet
		i := p.Provisioned(t, "shared-small", nil)
		_, c := i.Bound(t, asksNothing)
		if seen[c.TLS] = true; !c.TLS {
			testdrive.ExpectRefusal(t, i.NewBinding().Bind(t, asksRequired), http.StatusBadRequest, "offers no TLS")
			c.Open(t).Close()
			continue
		}
		expectTLSOnly(t, c)
		_, required := i.Bound(t, asksRequired)
		query := testdrive.ParseURL(t, c.URI).RawQuery
		assert.NotEmpty(t, query)
		assert.Equal(t, testdrive.ParseURL(t, required.URI).RawQuery, query)
	}
	assert.Len(t, seen, 2, "both servers are used")
}
