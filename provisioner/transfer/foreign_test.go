package transfer_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mysql-broker/provisioner/transfer"
	"mysql-broker/test/servers"
)

// acrossToo has differences between the flavours that are not in everything.
var acrossToo = map[string][]string{
	transfer.MySQL: {
		"CREATE TABLE checked (id INT PRIMARY KEY, n INT, j JSON NOT NULL, u VARCHAR(36) DEFAULT (UUID()), " +
			"p POINT SRID 4326, g GEOMETRYCOLLECTION, CHECK (n > 5) NOT ENFORCED, KEY hidden_key (n) INVISIBLE)",
		"INSERT INTO checked (id, n, j) VALUES (1, 1, '{\"b\": 1.5, \"a\": \"(( json \"}')",
		"CREATE VIEW arrow AS SELECT REGEXP_LIKE(u, 'a') AS a FROM checked",
		"CREATE TABLE stays (id INT PRIMARY KEY, t VARCHAR(30) COLLATE utf8mb4_unicode_ci COMMENT 'utf8mb4_0900_ai_ci json')",
		"INSERT INTO stays VALUES (1, 'x')",
	},
	transfer.MariaDB: {
		"CREATE TABLE checked (id INT PRIMARY KEY, n INT, j JSON NOT NULL, u VARCHAR(36) DEFAULT UUID(), i4 INET4, KEY " +
			"hidden_key (n) IGNORED, made TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, " +
			"n2 VARCHAR(9) COLLATE utf8mb4_general_nopad_ci) PAGE_CHECKSUM=1",
		"INSERT INTO checked (id, n, j, i4, n2) VALUES (1, 1, '{\"b\": 1.5, \"a\": \"(( uuid \"}', '10.0.0.1', 'x')",
		"CREATE PROCEDURE only_here() FOR n IN 1 .. 2 DO SELECT n; END FOR",
		"CREATE TABLE stays (id INT PRIMARY KEY, t VARCHAR(30) COLLATE utf8mb4_unicode_ci COMMENT 'uuid() utf8mb4_uca1400_ai_ci')",
		"INSERT INTO stays VALUES (1, 'x')",
	},
}

// lostInto are parts of the sentence that refuses the copy.
var lostInto = map[string][]string{
	transfer.MariaDB: {"table special: an index on an expression", "table special: the type JSON", "utf8mb4_0900_ai_ci in table special",
		"table checked: a check that is not enforced", "table checked: the SRID", "view arrow"},
	transfer.MySQL: {"sequence seq", "table history: the history", "table named: the history", "table special: the type UUID",
		"table special: the type INET6", "table checked: the type INET4", "procedure only_here", "utf8mb4_uca1400_ai_ci in table special"},
}

// TestCopyAcross copies every kind of object and value into the other flavour.
func TestCopyAcross(t *testing.T) {
	t.Parallel()
	names := map[string]string{"mysql": transfer.MySQL, "mariadb": transfer.MariaDB}
	all := servers.AllMySQL(t)
	for _, s := range servers.Chosen(t, all) {
		at := slices.IndexFunc(all, func(other servers.MySQL) bool { return other.Flavour != s.Flavour })
		if at < 0 { // as in EachMySQL, what is not installed is not tested
			return
		}
		t.Run("from "+s.Flavour, func(t *testing.T) {
			t.Parallel()
			into := names[all[at].Flavour]
			f := newFixtureInto(t, s, all[at])
			f.exec(f.source, "ALTER DATABASE COLLATE utf8mb4_unicode_ci", "CREATE TABLE plain (id INT AUTO_INCREMENT PRIMARY KEY, "+
				"t VARCHAR(99), f FLOAT, b BIT(3))", "INSERT INTO plain VALUES (0, 'größe 😀', 0.1, 5), (7, NULL, NULL, NULL)",
				"CREATE VIEW plain_view AS SELECT id FROM plain")
			f.must(transfer.Copy(t.Context(), f.from, f.to, transfer.Options{Into: into})) // nothing is lost
			f.expectSame("SELECT id, t, f*1e0, b+0 FROM plain ORDER BY id")

			f.createEverything()
			f.exec(f.source, acrossToo[names[s.Flavour]]...)
			o := transfer.Options{Into: into, Events: true}
			err := transfer.Copy(t.Context(), f.from, f.to, o)
			refusal, refused := errors.AsType[*transfer.RefusedError](err)
			if !refused {
				t.Fatalf("the copy that loses something: %v", err)
			}
			for _, part := range lostInto[into] {
				if !strings.Contains(refusal.Sentence, part) {
					t.Errorf("the refusal does not say %q: %s", part, refusal.Sentence)
				}
			}
			o.Lossy = true
			for range 2 { // the second time, it finds what the first copy has made
				f.must(transfer.Copy(t.Context(), f.from, f.to, o))
				f.expectSameAcross()
			}
		})
	}
}

// expectSameAcross compares the rows of all tables, and what there is.
func (f *fixture) expectSameAcross() {
	f.t.Helper()
	name := regexp.MustCompile(`n="((?:[^"\\\\]|\\\\.)*)"`)
	const tables = `SELECT table_name AS n FROM information_schema.tables WHERE table_schema = DATABASE() AND table_type IN
		('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY 1`
	f.expectSame(tables)
	for _, line := range f.all(f.source, tables) {
		quoted := "`" + strings.ReplaceAll(name.FindStringSubmatch(line)[1], "`", "``") + "`"
		switch quoted {
		case "`numbers`":
			f.expectSame("SELECT id, f*1e0, d, n, b+0, big, y FROM numbers ORDER BY 1")
		case "`named`": // the period is lost, and so is its only row
		default:
			f.expectSame("SELECT * FROM " + quoted + " ORDER BY 1, 2")
		}
	}
	for _, query := range []string{
		"SELECT trigger_name AS n FROM information_schema.triggers WHERE trigger_schema = DATABASE() ORDER BY 1",
		"SELECT event_name AS n FROM information_schema.events WHERE event_schema = DATABASE() ORDER BY 1",
		"SELECT routine_name AS n FROM information_schema.routines WHERE routine_schema = DATABASE() AND routine_name <> 'only_here' " +
			"ORDER BY 1",
		"SELECT table_name AS n FROM information_schema.views WHERE table_schema = DATABASE() AND table_name <> 'arrow' ORDER BY 1",
		"SELECT id, label FROM a_first ORDER BY 1",
	} {
		f.expectSame(query)
	}
}
