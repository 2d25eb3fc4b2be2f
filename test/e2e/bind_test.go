package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

var bindScenarios = []scenario{
	{"bind and log in", testBind},
	{"rotate a binding", testRotateBinding},
	{"bind from another space", testBindShared},
	{"rotate what cannot be rotated", testRotateInvalid},
}

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
	testdrive.Exec(t, c.Open(t), "CALL add_fruit('apple pie')")
	testdrive.Exec(t, next.Open(t), "CALL add_fruit('apple cake')", "ALTER TABLE fruit ADD weight INT")

	testdrive.ExpectEmpty(t, first.Unbind(t), http.StatusOK)
	testdrive.ExpectEmpty(t, first.Unbind(t), http.StatusGone)
	first.Fetch(t).Expect(t, http.StatusNotFound)
	testdrive.ExpectRefused(t, c.Fields(t))
	db := next.Open(t)
	testdrive.Exec(t, db, "CALL add_fruit('apple juice')", "CREATE OR REPLACE VIEW pears AS SELECT * FROM fruit WHERE name = 'pear'")
	got := testdrive.Read[int](t, db, "SELECT COUNT(*) FROM apples WHERE noted = UPPER(name)")
	assert.Equal(t, 5, got, "the view shows %d rows", got)
	again = i.Credentials(t, p.Do(t, "PUT", second.Path(), rotation).Expect(t, http.StatusOK))
	assert.True(t, again == next, "the request repeated after the predecessor's end got other credentials")
	second.Bind(t, body{"bind_resource": body{"app_guid": "an-app"}, "parameters": body{"role": "admin"}}).
		Expect(t, http.StatusConflict)
	p.Do(t, "PUT", second.Path(), body{"predecessor_binding_id": "another"}).Expect(t, http.StatusConflict)
	p.Do(t, "PUT", i.NewBinding().Path(), rotation).Expect(t, http.StatusBadRequest)
}

func testRotateInvalid(t *testing.T, p testdrive.Platform) {
	i := p.Provisioned(t, "shared-small", nil)
	reader, _ := i.Bound(t, body{"parameters": body{"role": "read-only", "tls": "optional"}})
	b := i.NewBinding()
	for name, fields := range map[string]body{
		"unknown":        {"predecessor_binding_id": "no-such-binding"},
		"unknown plan":   {"predecessor_binding_id": reader.BindingID, "plan_id": "no-such-plan"},
		"a number":       {"predecessor_binding_id": 5},
		"nothing at all": {},
	} {
		r := p.Do(t, "PUT", b.Path(), fields)
		assert.True(t, r.Status == http.StatusBadRequest && r.String("description") != "",
			"%s: status %d: %s", name, r.Status, r.Raw)
	}
	b.Fetch(t).Expect(t, http.StatusNotFound)
	p.Do(t, "PUT", p.NewInstance(t, "shared-small").NewBinding().Path(), body{"predecessor_binding_id": "b"}).
		Expect(t, http.StatusNotFound)

	// During a rotation, there may be one more than the plan allows.
	for range 10 - 1 {
		i.Bound(t, nil)
	}
	i.NewBinding().Bind(t, nil).Expect(t, http.StatusUnprocessableEntity)
	next, _ := i.Bound(t, body{"predecessor_binding_id": reader.BindingID})
	i.NewBinding().Bind(t, body{"predecessor_binding_id": next.BindingID}).Expect(t, http.StatusUnprocessableEntity)
}

// What Cloud Controller sends for an instance that is shared: the context is the instance's, bind_resource the app's.
func testBindShared(t *testing.T, p testdrive.Platform) {
	i := p.NewInstance(t, "shared-small")
	context := body{"platform": "cloudfoundry", "organization_guid": "an-organization", "space_guid": "its-space"}
	i.Provision(t, testdrive.Sync, body{"organization_guid": "an-organization", "space_guid": "its-space", "context": context}).
		Expect(t, http.StatusCreated)
	bindAs := func(space string, parameters body) body {
		return body{"app_guid": "an-app", "context": context, "parameters": parameters,
			"bind_resource": body{"app_guid": "an-app", "space_guid": space}}
	}
	_, own := i.Bound(t, bindAs("its-space", nil))
	testdrive.Exec(t, own.Open(t), "CREATE TABLE fruit (name TEXT)", "INSERT INTO fruit VALUES ('apple')")

	b, c := i.Bound(t, bindAs("another-space", nil))
	db := c.Open(t)
	assert.Equal(t, "apple", testdrive.Read[string](t, db, "SELECT name FROM fruit"))
	_, err := db.ExecContext(t.Context(), "INSERT INTO fruit VALUES ('pear')")
	assert.Error(t, err, "the account of another space could write")
	next, _ := i.Bound(t, body{"predecessor_binding_id": b.BindingID})
	for _, unshared := range []testdrive.Binding{b, next} {
		testdrive.ExpectEmpty(t, unshared.Unbind(t), http.StatusOK)
	}
	testdrive.ExpectRefused(t, c.Fields(t))
	own.Open(t)
}

var expiryScenarios = []scenario{{"bindings that end by themselves", testExpiry}}

// maxLate is how late an account may end.
const maxLate = time.Minute

// Expired accounts and their sessions end within a minute. Objects that they have defined stay, and an unbind still
// works.
func testExpiry(t *testing.T, p testdrive.Platform) {
	i := p.Provisioned(t, "shared-small", nil)
	admin := p.Admin(t)
	asked := body{"bind_resource": body{"app_guid": "an-app"}, "parameters": body{"ttl": "8s"}}
	definer := i.NewBinding()
	r := definer.Bind(t, asked).Expect(t, http.StatusCreated)
	c := i.Credentials(t, r)
	testdrive.UseAsApplication(t, c)
	expires, renew := testdrive.BindingTimes(t, r)
	left := time.Until(expires)
	assert.False(t, left > 8*time.Second || renew.After(expires) || renew.Before(expires.Add(-8*time.Second)),
		"it expires in %v, and is to be renewed at %v", left, renew)
	again := definer.Bind(t, asked).Expect(t, http.StatusOK)
	fetched := definer.Fetch(t).Expect(t, http.StatusOK)
	for name, r := range map[string]testdrive.Response{"repeated": again, "fetched": fetched} {
		at, _ := testdrive.BindingTimes(t, r)
		assert.True(t, at.Equal(expires) && i.Credentials(t, r) == c,
			"%s, it expires at %v instead of %v, or has other credentials", name, at, expires)
	}
	asked["parameters"] = body{"ttl": "9s"}
	definer.Bind(t, asked).Expect(t, http.StatusConflict)
	asked["parameters"] = body{"ttl": "8s"}
	forever, still := i.Bound(t, nil)
	assert.True(t, forever.Fetch(t).Body["metadata"] == nil, "a binding without ttl has metadata")

	busy := c.Open(t)
	ended := make(chan error, 1)
	go func() {
		_, err := busy.ExecContext(t.Context(), "SELECT SLEEP(600)")
		ended <- err
	}()
	interval := limits.Watch()
	login := testdrive.Connect(t, c.Fields(t)) // the definer's account stays, locked
	login.SetMaxIdleConns(0)
	testdrive.Eventually(t, "the account ends", func() bool { return login.PingContext(t.Context()) != nil })
	if late := time.Since(expires); late < -100*time.Millisecond {
		t.Errorf("early by %v", -late)
	} else {
		interval.Prompt(t, "an account ends", late, maxLate)
	}
	assert.Error(t, testdrive.Receive(t, ended, "the running query ends"), "the running query went on to its end")
	testdrive.ExpectRefused(t, c.Fields(t))
	db := still.Open(t)
	testdrive.Exec(t, db, "CALL add_fruit('apple pie')")
	got := testdrive.Read[int](t, db, "SELECT COUNT(*) FROM apples")
	assert.Equal(t, 3, got, "the view shows %d rows", got)
	testdrive.AwaitTrue(t, admin, `SELECT COUNT(*) = 0 FROM information_schema.processlist WHERE user = ?`, c.Username)

	testdrive.Eventually(t, "the bindings are gone", func() bool { return definer.Fetch(t).Status == http.StatusNotFound })
	testdrive.Eventually(t, "the end is recorded", func() bool {
		return definer.Bind(t, asked).Expect(t, http.StatusConflict).String("description") != ""
	})
	testdrive.ExpectRefusal(t, definer.Fetch(t), http.StatusNotFound, "has expired")
	i.NewBinding().Bind(t, body{"predecessor_binding_id": definer.BindingID}).Expect(t, http.StatusBadRequest)
	testdrive.ExpectEmpty(t, definer.Unbind(t), http.StatusOK)
	testdrive.ExpectEmpty(t, definer.Unbind(t), http.StatusGone)
	definer.Bind(t, nil).Expect(t, http.StatusCreated) // the id is free again
}
