package e2e

import (
	"net/http"
	"testing"

	"github.com/go-sql-driver/mysql"
)

var bindScenarios = []scenario{
	{"bind and log in", testBind},
	{"bind and repeat", testBindTwice},
	{"bind with roles", testRoles},
	{"bind what cannot be bound", testBindInvalid},
	{"service key", testServiceKey},
	{"fetch a binding", testFetchBinding},
	{"rotate a binding", testRotateBinding},
	{"bind from another space", testBindShared},
	{"rotate what cannot be rotated", testRotateInvalid},
}

func testBind(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", nil)
	_, c := i.bound(t, body{"bind_resource": body{"app_guid": "an-app"}})
	checkAliases(t, c)
	if c.TLS != (p.server.CA != "") {
		t.Errorf("tls is %v", c.TLS)
	}
	checkTLS(t, c)
	checkLogins(t, c)
	useAsApplication(t, c)
}

func checkAliases(t *testing.T, c credentials) {
	t.Helper()
	if c.Hostname != c.Host || c.Name != c.Database {
		t.Errorf("hostname %q, host %q, name %q, database %q", c.Hostname, c.Host, c.Name, c.Database)
	}
	if c.TLS != (c.CACertificate != "") || c.TLS != (c.JDBCURLMaria != "") {
		t.Errorf("tls is %v with a CA certificate of %d bytes, mariadbJdbcUrl is %q", c.TLS, len(c.CACertificate),
			c.JDBCURLMaria)
	}
	if c.SSLRootCert != c.CACertificate || c.JDBCURLSpring != c.JDBCURL || c.Type != "mysql" || c.Provider == "" {
		t.Errorf("sslRootCert, jdbc-url, type or provider: %+v", c)
	}
}

// checkTLS fails the test unless TLS is on offer, and the server's certificate is for its host.
func checkTLS(t *testing.T, c credentials) {
	t.Helper()
	if !c.TLS {
		t.Fatal("the credentials have no TLS")
	}
	misled := c.fields(t)
	misled.TLS.ServerName = "another-host"
	if connect(t, misled).PingContext(t.Context()) == nil {
		t.Error("the certificate is good for any host")
	}
}

// checkLogins logs in by every form of the credentials.
func checkLogins(t *testing.T, c credentials) {
	t.Helper()
	for name, login := range map[string]*mysql.Config{"fields": c.fields(t), "uri": c.uri(t), "jdbcUrl": c.jdbc(t)} {
		db := open(t, login)
		if got := read[string](t, db, "SELECT DATABASE()"); got != c.Database {
			t.Errorf("%s: the database is %q", name, got)
		}
		db.Close()
	}
}

// useAsApplication does what applications and their migrations do.
func useAsApplication(t *testing.T, c credentials) {
	t.Helper()
	db := c.open(t)
	exec(t, db,
		"CREATE TABLE fruit (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20), noted VARCHAR(20))",
		"CREATE TRIGGER note BEFORE INSERT ON fruit FOR EACH ROW SET NEW.noted = UPPER(NEW.name)",
		"INSERT INTO fruit (name) VALUES ('apple'), ('pear')",
		"CREATE VIEW apples AS SELECT * FROM fruit WHERE name LIKE 'apple%'",
		"CREATE PROCEDURE add_fruit (n VARCHAR(20)) INSERT INTO fruit (name) VALUES (n)",
		"CALL add_fruit('apple tart')")
	if got := read[string](t, db, "SELECT GROUP_CONCAT(noted ORDER BY id) FROM apples"); got != "APPLE,APPLE TART" {
		t.Errorf("the view shows %q", got)
	}
}

func testBindTwice(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", nil)
	fields := body{"bind_resource": body{"app_guid": "an-app"}, "parameters": body{"role": "read-write"}}
	b, first := i.bound(t, fields)
	if again := i.credentials(t, b.bind(t, fields).Expect(t, http.StatusOK)); again != first {
		t.Error("the repeated bind got other credentials")
	}
	b.bind(t, body{"bind_resource": body{"app_guid": "another-app"}}).Expect(t, http.StatusConflict)
	b.bind(t, body{"bind_resource": body{"app_guid": "an-app"}, "parameters": body{"role": "admin"}}).
		Expect(t, http.StatusConflict)
	if _, second := i.bound(t, fields); second.Username == first.Username || second.Password == first.Password {
		t.Error("two bindings share an account or a password")
	}
}

func testRoles(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", nil)
	_, writer := i.bound(t, nil)
	exec(t, writer.open(t), "CREATE TABLE fruit (name TEXT)", "INSERT INTO fruit VALUES ('apple')")

	_, reader := i.bound(t, body{"parameters": body{"role": "read-only"}})
	db := reader.open(t)
	if got := read[string](t, db, "SELECT name FROM fruit"); got != "apple" {
		t.Errorf("read %q", got)
	}
	if _, err := db.ExecContext(t.Context(), "INSERT INTO fruit VALUES ('pear')"); err == nil {
		t.Error("the read-only account could write")
	}

	_, admin := i.bound(t, body{"parameters": body{"role": "admin"}})
	exec(t, admin.open(t), "ALTER TABLE fruit ADD weight INT", "DROP TABLE fruit")
}

func testBindInvalid(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", nil)
	b := i.newBinding()
	expectRefusal(t, b.bind(t, body{"bind_resource": body{"route": "shop.example.com"}}), 400, "route")
	expectRefusal(t, b.bind(t, body{"parameters": body{"rolle": "admin"}}), 400, `"rolle"`, "role")
	expectRefusal(t, b.bind(t, body{"parameters": body{"role": "root"}}), 400, `"role"`, "read-only")
	expectRefusal(t, b.bind(t, body{"service_id": "no-such-service"}), 400)
	expectRefusal(t, b.bind(t, body{"plan_id": nil}), 400)
	b.fetch(t).Expect(t, http.StatusNotFound)
	b.unbind(t).Expect(t, http.StatusGone)

	nowhere := p.newInstance(t, "shared-small").newBinding()
	nowhere.bind(t, nil).Expect(t, http.StatusNotFound)
	nowhere.unbind(t).Expect(t, http.StatusGone)
}

// Korifi sends an empty app_guid with keys, Cloud Controller none.
func testServiceKey(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", nil)
	b, c := i.bound(t, body{"app_guid": ""})
	useAsApplication(t, c)
	key := body{"bind_resource": body{"credential_client_id": "a-client"}}
	if again := i.credentials(t, b.bind(t, key).Expect(t, http.StatusOK)); again != c {
		t.Error("a key without app_guid is another one")
	}
}

func testFetchBinding(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", nil)
	b, c := i.bound(t, body{"parameters": body{"role": "admin"}})
	r := b.fetch(t).Expect(t, http.StatusOK)
	if i.credentials(t, r) != c {
		t.Error("the fetched credentials are others")
	}
	if field(r.Body, "parameters", "role") != "admin" {
		t.Errorf("not the parameters that were asked for: %v", r.Body["parameters"])
	}
}

// A successor has the rights of its predecessor. What the predecessor's account has defined works for both, also after
// the predecessor is gone. OSB API 2.17, "Binding Rotation".
func testRotateBinding(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", nil)
	first, c := i.bound(t, body{"bind_resource": body{"app_guid": "an-app"}, "parameters": body{"role": "admin"}})
	useAsApplication(t, c)
	rotation := body{"predecessor_binding_id": first.bindingID}
	second := i.newBinding()
	next := i.credentials(t, p.Do(t, "PUT", second.path(), rotation).Expect(t, http.StatusCreated))
	if next.Username == c.Username || next.Password == c.Password {
		t.Error("the successor has the account or the password of its predecessor")
	}
	if again := i.credentials(t, p.Do(t, "PUT", second.path(), rotation).Expect(t, http.StatusOK)); again != next {
		t.Error("the repeated request got other credentials")
	}
	r := second.fetch(t).Expect(t, http.StatusOK)
	if i.credentials(t, r) != next || field(r.Body, "parameters", "role") != "admin" {
		t.Errorf("the successor is %v", r.Body["parameters"])
	}
	exec(t, c.open(t), "CALL add_fruit('apple pie')")
	exec(t, next.open(t), "CALL add_fruit('apple cake')", "ALTER TABLE fruit ADD weight INT")

	expectEmpty(t, first.unbind(t), http.StatusOK)
	expectRefused(t, c.fields(t))
	db := next.open(t)
	exec(t, db, "CALL add_fruit('apple juice')", "CREATE OR REPLACE VIEW pears AS SELECT * FROM fruit WHERE name = 'pear'")
	if got := read[int](t, db, "SELECT COUNT(*) FROM apples WHERE noted = UPPER(name)"); got != 5 {
		t.Errorf("the view shows %d rows", got)
	}
	if again := i.credentials(t, p.Do(t, "PUT", second.path(), rotation).Expect(t, http.StatusOK)); again != next {
		t.Error("the request repeated after the predecessor's end got other credentials")
	}
	second.bind(t, body{"bind_resource": body{"app_guid": "an-app"}, "parameters": body{"role": "admin"}}).
		Expect(t, http.StatusConflict)
	third := i.newBinding()
	p.Do(t, "PUT", second.path(), body{"predecessor_binding_id": third.bindingID}).Expect(t, http.StatusConflict)
	p.Do(t, "PUT", third.path(), rotation).Expect(t, http.StatusBadRequest)

	// A successor of the successor, with every field that other requests have.
	_, reader := i.bound(t, nil)
	reader.open(t)
	_, last := i.bound(t, body{"predecessor_binding_id": second.bindingID, "app_guid": "an-app", "parameters": body{}})
	exec(t, last.open(t), "ALTER TABLE fruit DROP weight")

	// Cloud Foundry creates another binding for the application, without a predecessor.
	asked := body{"bind_resource": body{"app_guid": "an-app"}, "parameters": body{"role": "admin"}}
	older, before := i.bound(t, asked)
	exec(t, before.open(t), "CREATE VIEW plums AS SELECT * FROM fruit WHERE name = 'plum'")
	_, newer := i.bound(t, asked)
	expectEmpty(t, older.unbind(t), http.StatusOK)
	expectRefused(t, before.fields(t))
	read[int](t, newer.open(t), "SELECT COUNT(*) FROM plums")
}

func testRotateInvalid(t *testing.T, p platform) {
	i, other := p.provisioned(t, "shared-small", nil), p.provisioned(t, "shared-small", nil)
	reader, _ := i.bound(t, body{"parameters": body{"role": "read-only", "tls": "optional"}})
	foreign, _ := other.bound(t, nil)
	b := i.newBinding()
	for name, fields := range map[string]body{
		"unknown":        {"predecessor_binding_id": "no-such-binding"},
		"itself":         {"predecessor_binding_id": b.bindingID},
		"another's":      {"predecessor_binding_id": foreign.bindingID},
		"other rights":   {"predecessor_binding_id": reader.bindingID, "parameters": body{"role": "admin"}},
		"unknown plan":   {"predecessor_binding_id": reader.bindingID, "plan_id": "no-such-plan"},
		"a number":       {"predecessor_binding_id": 5},
		"nothing at all": {},
	} {
		r := p.Do(t, "PUT", b.path(), fields)
		if r.Status != http.StatusBadRequest || r.String("description") == "" {
			t.Errorf("%s: status %d: %s", name, r.Status, r.Raw)
		}
	}
	b.fetch(t).Expect(t, http.StatusNotFound)
	p.Do(t, "PUT", p.newInstance(t, "shared-small").newBinding().path(), body{"predecessor_binding_id": "b"}).
		Expect(t, http.StatusNotFound)

	same := body{"predecessor_binding_id": reader.bindingID, "parameters": body{"role": "read-only", "tls": "optional"}}
	_, c := i.bound(t, same)
	if _, err := c.open(t).ExecContext(t.Context(), "CREATE TABLE fruit (name TEXT)"); err == nil {
		t.Error("the successor of a read-only binding can write")
	}

	// During a rotation, there may be one more than the plan allows.
	for range 10 - 2 {
		i.bound(t, nil)
	}
	i.newBinding().bind(t, nil).Expect(t, http.StatusUnprocessableEntity)
	next, _ := i.bound(t, body{"predecessor_binding_id": reader.bindingID})
	i.newBinding().bind(t, body{"predecessor_binding_id": next.bindingID}).Expect(t, http.StatusUnprocessableEntity)
}

// What Cloud Controller sends for an instance that is shared: the context is the instance's, bind_resource the app's.
func testBindShared(t *testing.T, p platform) {
	i := p.newInstance(t, "shared-small")
	context := body{"platform": "cloudfoundry", "organization_guid": "an-organization", "space_guid": "its-space"}
	i.provision(t, now, body{"organization_guid": "an-organization", "space_guid": "its-space", "context": context}).
		Expect(t, http.StatusCreated)
	bindAs := func(space string, parameters body) body {
		return body{"app_guid": "an-app", "context": context, "parameters": parameters,
			"bind_resource": body{"app_guid": "an-app", "space_guid": space}}
	}
	first, own := i.bound(t, bindAs("its-space", nil))
	exec(t, own.open(t), "CREATE TABLE fruit (name TEXT)", "INSERT INTO fruit VALUES ('apple')")

	b, c := i.bound(t, bindAs("another-space", nil))
	db := c.open(t)
	if got := read[string](t, db, "SELECT name FROM fruit"); got != "apple" {
		t.Errorf("read %q", got)
	}
	if _, err := db.ExecContext(t.Context(), "INSERT INTO fruit VALUES ('pear')"); err == nil {
		t.Error("the account of another space could write")
	}
	if again := i.credentials(t, b.bind(t, bindAs("another-space", nil)).Expect(t, http.StatusOK)); again != c {
		t.Error("the repeated bind got other credentials")
	}
	next, reader := i.bound(t, body{"predecessor_binding_id": b.bindingID})
	if _, err := reader.open(t).ExecContext(t.Context(), "INSERT INTO fruit VALUES ('pear')"); err == nil {
		t.Error("the successor of another space's could write")
	}
	for space, predecessor := range map[string]binding{"another-space": first, "its-space": b} {
		asked := bindAs(space, nil)
		asked["predecessor_binding_id"] = predecessor.bindingID
		expectRefusal(t, i.newBinding().bind(t, asked), http.StatusBadRequest, "predecessor_binding_id")
	}
	asked := bindAs("its-space", nil)
	asked["predecessor_binding_id"] = first.bindingID
	i.bound(t, asked)
	i.bound(t, bindAs("another-space", body{"role": "read-only"}))
	for _, role := range []string{"read-write", "admin"} {
		expectRefusal(t, i.newBinding().bind(t, bindAs("another-space", body{"role": role})), 400, `"role"`, "read-only")
	}
	for _, unshared := range []binding{b, next} {
		expectEmpty(t, unshared.unbind(t), http.StatusOK)
	}
	expectRefused(t, c.fields(t))
	own.open(t)
}
