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
