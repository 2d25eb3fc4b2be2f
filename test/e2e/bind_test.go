package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

func testBind(t *testing.T, p testdrive.Platform) {
	i := p.Provisioned(t, "shared-small", nil)
	fields := body{"bind_resource": body{"app_guid": "an-app"}, "parameters": body{"role": "read-write"}}
	b, c := i.Bound(t, fields)
	assert.Equal(t, p.Server.CA != "", c.TLS, "tls")
	checkTLS(t, c)
	checkLogins(t, c)
	testdrive.UseAsApplication(t, c)
	again := i.Credentials(t, b.Bind(t, fields).Expect(t, http.StatusOK))
	assert.True(t, again == c, "the repeated bind got other credentials")
	fields["parameters"] = body{"role": "admin"}
	b.Bind(t, fields).Expect(t, http.StatusConflict)
	testdrive.ExpectRefusal(t, i.NewBinding().Bind(t, body{"bind_resource": body{"route": "shop.example.com"}}), 400, "route")
}

// checkTLS fails the test unless TLS is on offer, and the server's certificate is for its host.
func checkTLS(t *testing.T, c testdrive.Credentials) {
	require.True(t, c.TLS, "the credentials have no TLS")
	misled := c.Fields(t)
	misled.TLS.ServerName = "another-host"
	assert.Error(t, testdrive.Connect(t, misled).PingContext(t.Context()), "the certificate is good for any host")
}

// checkLogins logs in by every form of the credentials.
func checkLogins(t *testing.T, c testdrive.Credentials) {
	for name, login := range map[string]*mysql.Config{"fields": c.Fields(t), "uri": c.ByURI(t), "jdbcUrl": c.ByJDBC(t)} {
		db := testdrive.Open(t, login)
		assert.Equal(t, c.Database, testdrive.Read[string](t, db, "SELECT DATABASE()"), "%s: the database", name)
		db.Close()
	}
}

// A successor has the rights of its predecessor. What the predecessor's account has defined works for both, also after
// the predecessor is gone. OSB API 2.17, "Binding Rotation".
func testRotateBinding(t *testing.T, p testdrive.Platform) {
	i := p.Provisioned(t, "shared-small", nil)
	first, c := i.Bound(t, body{"bind_resource": body{"app_guid": "an-app"}, "parameters": body{"role": "admin"}})
	testdrive.UseAsApplication(t, c)
	rotation := body{"predecessor_binding_id": first.BindingID}
	second := i.NewBinding()
	next := i.Credentials(t, p.Do(t, "PUT", second.Path(), rotation).Expect(t, http.StatusCreated))
	assert.False(t, next.Username == c.Username || next.Password == c.Password,
		"the successor has the account or the password of its predecessor")
	again := i.Credentials(t, p.Do(t, "PUT", second.Path(), rotation).Expect(t, http.StatusOK))
	assert.True(t, again == next, "the repeated request got other credentials")
	r := second.Fetch(t).Expect(t, http.StatusOK)
	assert.False(t, i.Credentials(t, r) != next || testdrive.Field(r.Body, "parameters", "role") != "admin",
		"the successor is %v", r.Body["parameters"])
	testdrive.Exec(t, c.Open(t), "CALL add_item()")
	testdrive.Exec(t, next.Open(t), "CALL add_item()", "ALTER TABLE items ADD weight INT")

	testdrive.ExpectEmpty(t, first.Unbind(t), http.StatusOK)
	testdrive.ExpectEmpty(t, first.Unbind(t), http.StatusGone)
	first.Fetch(t).Expect(t, http.StatusNotFound)
	testdrive.ExpectRefused(t, c.Fields(t))
	db := next.Open(t)
	testdrive.Exec(t, db, "CALL add_item()", "CREATE OR REPLACE VIEW ones AS SELECT * FROM items WHERE name = 'one'")
	assert.Equal(t, 4, testdrive.Read[int](t, db, "SELECT COUNT(*) FROM names WHERE name = 'ADDED'"), "the view shows")
	again = i.Credentials(t, p.Do(t, "PUT", second.Path(), rotation).Expect(t, http.StatusOK))
	assert.True(t, again == next, "the request repeated after the predecessor's end got other credentials")
	second.Bind(t, body{"bind_resource": body{"app_guid": "an-app"}, "parameters": body{"role": "admin"}}).
		Expect(t, http.StatusConflict)
	p.Do(t, "PUT", second.Path(), body{"predecessor_binding_id": "another"}).Expect(t, http.StatusConflict)
	p.Do(t, "PUT", i.NewBinding().Path(), rotation).Expect(t, http.StatusBadRequest)
	p.Do(t, "PUT", i.NewBinding().Path(), body{"predecessor_binding_id": second.BindingID, "plan_id": "no-such-plan"}).
		Expect(t, http.StatusBadRequest)
	p.Do(t, "PUT", p.NewInstance(t, "shared-small").NewBinding().Path(), body{"predecessor_binding_id": "b"}).
		Expect(t, http.StatusNotFound)
}

// maxLate is how late an account may end.
const maxLate = time.Minute

// Expired accounts end within a minute. Then the platform reads why, and an unbind still works.
func testExpiry(t *testing.T, p testdrive.Platform) {
	i := p.Provisioned(t, "shared-small", nil)
	asked := body{"parameters": body{"ttl": "8s"}}
	b := i.NewBinding()
	r := b.Bind(t, asked).Expect(t, http.StatusCreated)
	c := i.Credentials(t, r)
	expires, renew := testdrive.BindingTimes(t, r)
	left := time.Until(expires)
	assert.False(t, left > 8*time.Second || renew.After(expires) || renew.Before(expires.Add(-8*time.Second)),
		"it expires in %v, and is to be renewed at %v", left, renew)
	for name, r := range map[string]testdrive.Response{"repeated": b.Bind(t, asked), "fetched": b.Fetch(t)} {
		at, _ := testdrive.BindingTimes(t, r.Expect(t, http.StatusOK))
		assert.True(t, at.Equal(expires) && i.Credentials(t, r) == c,
			"%s, it expires at %v instead of %v, or has other credentials", name, at, expires)
	}
	b.Bind(t, body{"parameters": body{"ttl": "9s"}}).Expect(t, http.StatusConflict)
	interval := limits.Watch()
	login := testdrive.Connect(t, c.Fields(t))
	login.SetMaxIdleConns(0)
	testdrive.Eventually(t, "the account ends", func() bool { return login.PingContext(t.Context()) != nil })
	late := time.Since(expires)
	assert.True(t, late >= -100*time.Millisecond, "early by %v", -late)
	interval.Prompt(t, "an account ends", late, maxLate)
	testdrive.ExpectRefused(t, c.Fields(t))
	testdrive.Eventually(t, "the end is recorded", func() bool {
		return strings.Contains(b.Fetch(t).Expect(t, http.StatusNotFound).String("description"), "has expired")
	})
	b.Bind(t, asked).Expect(t, http.StatusConflict)
	testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusOK)
	testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusGone)
	b.Bind(t, nil).Expect(t, http.StatusCreated) // the id is free again
}
