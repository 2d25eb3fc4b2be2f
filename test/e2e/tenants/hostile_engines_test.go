package tenants

import (
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// testOtherEngines tries every engine that tables of a tenant could have.
func testOtherEngines(t *testing.T, p testdrive.Platform) {
	t.Helper()
	_, c := p.Provisioned(t, "shared-small", nil).Bound(t, body{"parameters": body{"role": "admin"}})
	db := c.Open(t)
	testdrive.Exec(t, db, "CREATE TABLE kept (id INT)")
	var tried []string
	for _, engine := range testdrive.ReadAll(t, db, `SELECT ENGINE FROM information_schema.ENGINES
		WHERE SUPPORT = 'YES' AND ENGINE NOT IN ('PERFORMANCE_SCHEMA', 'SEQUENCE', 'ndbinfo')`) {
		tried = append(tried, engine)
		for _, statement := range []string{
			"CREATE TABLE other (id INT NOT NULL) ENGINE=" + engine,
			"CREATE TEMPORARY TABLE other (id INT NOT NULL) ENGINE=" + engine,
			"ALTER TABLE kept ENGINE=" + engine,
		} {
			if number := testdrive.RefusalOf(t, db, statement); number == 0 {
				t.Errorf("%s works", statement)
			}
		}
	}
	if all := strings.Join(tried, ","); !strings.Contains(all, "MyISAM") || !strings.Contains(all, "MEMORY") {
		t.Errorf("engines tried: %s", all)
	}
	conn := session(t, db)
	if _, err := conn.ExecContext(t.Context(), "SET SESSION enforce_storage_engine = NULL"); err == nil {
		t.Error("a tenant lifts the enforcement")
	}
}

// No engine but InnoDB works. A dump of tables of another engine becomes InnoDB's as it is restored, since dumps switch
// NO_ENGINE_SUBSTITUTION off.
func TestDumpOfAnotherEngineBecomesInnoDB(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		elsewhere := testdrive.PrivateWith(t, s.Flavour, map[string][]string{"mysql": {"disabled_storage_engines="}}[s.Flavour]...)
		root := testdrive.Platform{Server: elsewhere}.Admin(t)
		root.SetMaxOpenConns(1)
		if s.Flavour == "mariadb" {
			testdrive.Exec(t, root, "SET SESSION enforce_storage_engine = NULL")
		}
		testdrive.Exec(t, root, "CREATE DATABASE legacy", "CREATE TABLE legacy.words (id INT AUTO_INCREMENT PRIMARY KEY, word TEXT, "+
			"FULLTEXT KEY (word)) ENGINE=MyISAM", "INSERT INTO legacy.words (word) VALUES ('apple'), ('pear')")
		dump := runClient(t, s.Flavour, 0, testdrive.Credentials{Host: elsewhere.Host, Port: elsewhere.Port, Username: elsewhere.User,
			Password: elsewhere.Password, CACertificate: elsewhere.CA, Database: "legacy"}, nil,
			append(serverFree[s.Flavour], "--no-tablespaces")...)
		if !strings.Contains(string(dump), "ENGINE=MyISAM") {
			t.Fatalf("the dump has no table of MyISAM: %s", dump)
		}
		p := testdrive.StartPlatform(t, s, testdrive.Environment(t, s))
		testOtherEngines(t, p)
		_, c := p.Provisioned(t, "shared-small", nil).Bound(t, nil)
		runClient(t, s.Flavour, 1, c, dump, "--binary-mode")
		db := c.Open(t)
		if engine := testdrive.Read[string](t, db, "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()"); engine != "InnoDB" {
			t.Errorf("the restored table is of %s", engine)
		}
		if words := testdrive.Read[string](t, db, "SELECT GROUP_CONCAT(word ORDER BY id) FROM words"); words != "apple,pear" {
			t.Errorf("the restored table has %q", words)
		}
		again := runClient(t, s.Flavour, 0, c, nil, append(serverFree[s.Flavour], "--no-tablespaces", "--routines", "--triggers")...)
		if !strings.Contains(string(again), "apple") {
			t.Errorf("a tenant's dump has no rows: %s", again)
		}
	})
}
