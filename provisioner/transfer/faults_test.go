package transfer_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// fault is a database that copies or restores once changed, or could not make.
type fault struct {
	name    string
	on      string   // the flavour that has such databases, "later" for a later MariaDB, or "?" for unusualSettings; "" for both
	create  []string // DB is the name of the database
	then    []string // run in the source and in the copy before they are compared
	same    []string // queries with the same result in both
	leftOut []string // programs that the copy lacks
	texts   []string // programs whose text names the database, and differs
	refused string   // the beginning of the sentence that refuses it, "" for none
}

// chunkBytes makes chunks small enough for tables that are filled fast to have several.
const chunkBytes = 512 << 10

// filled makes a table of so many rows, each from a number n.
func filled(table, definition, columns string, rows int) []string {
	all := []string{"CREATE TABLE " + table + " " + definition, "CREATE TABLE s (n INT PRIMARY KEY)", "INSERT INTO s VALUES (1)"}
	for n := 1; n < 1024; n *= 2 {
		all = append(all, fmt.Sprintf("INSERT INTO s SELECT n + %d FROM s", n))
	}
	return append(all, fmt.Sprintf("INSERT INTO %s SELECT %s FROM (SELECT a.n + 1024 * (b.n - 1) AS n FROM s AS a JOIN s AS b WHERE b.n <= %d) AS x "+
		"WHERE n <= %d", table, columns, rows/1024+1, rows), "DROP TABLE s", "ANALYZE TABLE "+table)
}

const hashed = "LEFT(UNHEX(SHA2(n, 256)), 16)"

func faults(flavour string) []fault {
	few := func(table, definition, columns string) []string { return filled(table, definition, columns, 2500) }
	return []fault{
		{name: "keys of bytes", create: few("j", "(k BINARY(16) PRIMARY KEY, f VARCHAR(255))", hashed+", REPEAT('x', 250)")},
		{name: "keys of variable bytes", create: few("j", "(k VARBINARY(16) PRIMARY KEY, f VARCHAR(255))",
			hashed+", REPEAT('x', 250)")},
		{name: "keys of latin1", create: few("j", "(k VARCHAR(20) CHARACTER SET latin1 PRIMARY KEY, f VARCHAR(255))",
			"CONCAT(CONVERT('ß' USING latin1), n), REPEAT('x', 250)")},
		{name: "keys of sjis", create: few("j", "(k CHAR(20) CHARACTER SET sjis PRIMARY KEY, f VARCHAR(255))",
			"CONCAT(CONVERT('表' USING sjis), n), REPEAT('x', 250)")},
		{name: "keys of gbk", create: few("j", "(k CHAR(20) CHARACTER SET gbk PRIMARY KEY, f VARCHAR(255))",
			"CONCAT(CONVERT('中' USING gbk), n), REPEAT('x', 250)")},
		{name: "defaults of bytes", create: []string{"CREATE TABLE t (id INT PRIMARY KEY, b VARBINARY(9) DEFAULT x'FF41', " +
			"c BINARY(4) DEFAULT x'80FF0041', d VARBINARY(9) DEFAULT x'27FF5C00', g VARBINARY(9) AS (CONCAT(b, x'FE80')) STORED, " +
			"CHECK (b <> x'FF'))"}},
		{name: "partitions by bytes", create: []string{"CREATE TABLE p (b VARBINARY(9)) PARTITION BY LIST COLUMNS (b) " +
			"(PARTITION p0 VALUES IN (x'FF', x'41'), PARTITION p1 VALUES IN (x'80'))", "INSERT INTO p VALUES (x'FF'), (x'80')"},
			same: []string{"SELECT HEX(b) FROM p PARTITION (p0)", "SELECT HEX(b) FROM p PARTITION (p1)"}},
		{name: "members in latin1", create: []string{"SET NAMES latin1", "CREATE TABLE t (e ENUM('\xe9', 'b') CHARACTER SET latin1 " +
			"DEFAULT '\xe9', v VARCHAR(9) CHARACTER SET latin1 DEFAULT '\xe9')", "SET NAMES utf8mb4"}},

		{name: "a library", on: "mysql", create: []string{
			"CREATE LIBRARY lib LANGUAGE JAVASCRIPT AS $$ export function f(n) { return n + 1; } $$",
			"CREATE FUNCTION twice(n INT) RETURNS INT DETERMINISTIC LANGUAGE JAVASCRIPT USING (lib AS l) AS $$ return l.f(n) $$"}},

		{name: "a stored date of a time", create: []string{"SET time_zone = '+08:00'",
			"CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP NULL, d DATE AS (DATE(at)) STORED, KEY (d))",
			"INSERT INTO t (id, at) VALUES (1, '2024-06-01 03:00:00'), (2, NULL)", "SET time_zone = '-03:30'",
			"INSERT INTO t (id, at) VALUES (3, '2024-06-01 23:00:00'), (4, '2024-06-01 12:00:00')"},
			same: []string{"SELECT id FROM t WHERE d = '2024-06-01' ORDER BY id"}},
		{name: "stored times without a key", create: []string{"SET time_zone = '+05:45'",
			"CREATE TABLE t (at TIMESTAMP(3) NULL, h INT AS (HOUR(at)) STORED, x VARCHAR(40) AS (CONCAT(at, '!')) STORED)",
			"INSERT INTO t (at) VALUES ('2024-06-01 03:00:00.5'), ('2024-06-01 03:00:00.5')", "SET time_zone = '+00:00'",
			"INSERT INTO t (at) VALUES ('2024-05-31 21:15:00.5')"}},
		{name: "stored names of months", on: "mysql", create: []string{"SET lc_time_names = 'de_DE'",
			"CREATE TABLE t (id INT PRIMARY KEY, d DATE, m VARCHAR(20) AS (MONTHNAME(d)) STORED)",
			"INSERT INTO t (id, d) VALUES (1, '2024-03-01')", "SET lc_time_names = 'en_US'", "INSERT INTO t (id, d) VALUES (2, '2024-03-01')"}},
		{name: "stored values of a setting that is not tried", on: "mysql", refused: "Table t has rows with stored values of generated " +
			"columns, such as m,", create: []string{"CREATE TABLE t (id INT PRIMARY KEY, d DATE, m VARCHAR(20) AS (MONTHNAME(d)) STORED)",
			"SET lc_time_names = 'hu_HU'", "INSERT INTO t (id, d) VALUES (1, '2024-03-01')"}},
		{name: "a check of a setting that is not tried", on: "mysql", refused: "Table t has a row for which a check", create: []string{"SET lc_time_names = 'hu_HU'", "CREATE TABLE t (d DATE, CONSTRAINT marzo CHECK " +
			"(LENGTH(MONTHNAME(d)) = 8))", "INSERT INTO t VALUES ('2024-03-01')"}},
		{name: "a check of the hour", create: []string{"SET time_zone = '+08:00'",
			"CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP, CHECK (HOUR(at) BETWEEN 8 AND 17))",
			"INSERT INTO t VALUES (1, '2024-06-01 09:00:00')", "SET time_zone = '-08:00'", "INSERT INTO t VALUES (2, '2024-06-01 10:00:00')"}},

		{name: "a broken view of JSON_TABLE", create: []string{"CREATE TABLE gone (id INT, j JSON)",
			"CREATE VIEW v AS SELECT g.id, x.a FROM gone g, JSON_TABLE(g.j, '$[*]' COLUMNS (a INT PATH '$')) x",
			"CREATE VIEW w AS SELECT * FROM v", "CREATE VIEW z AS SELECT 1 AS one", "DROP TABLE gone"},
			leftOut: []string{"view v", "view w"}},
		{name: "broken views", create: []string{"CREATE TABLE gone (id INT)", "CREATE TABLE t (id INT, v INT)",
			"CREATE VIEW a AS SELECT * FROM gone", "CREATE VIEW b AS SELECT v FROM t", "DROP TABLE gone", "ALTER TABLE t DROP COLUMN v"},
			leftOut: []string{"view a", "view b"}},
		{name: "views whose strings the server has lost", on: "mysql", create: []string{"CREATE TABLE t (id INT, e VARCHAR(9))",
			"SET character_set_client = binary", "CREATE VIEW a AS SELECT 'é' AS x", "CREATE VIEW b AS SELECT id FROM t WHERE e = 'é'",
			"CREATE VIEW c AS SELECT 'Ã©' AS x"}, leftOut: []string{"view a", "view b", "view c"}},
		{name: "views of bytes", create: []string{"CREATE TABLE t (`é` INT)", "SET character_set_client = binary",
			"CREATE VIEW a AS SELECT _utf8mb4'é it''s' AS x, 'it''s \\ \"' AS y, _latin1'é' AS z, `é` FROM t", "SET NAMES binary",
			"CREATE VIEW b AS SELECT 'é' AS x"}, same: []string{"SELECT HEX(x) FROM b"}},
		{name: "an invisible key", create: append(few("t", "(e ENUM('b','a') NOT NULL, n BIGINT NOT NULL, f VARCHAR(255), "+
			"PRIMARY KEY (e, n), UNIQUE KEY u (n))", "1 + n % 2, n, REPEAT('x', 250)"),
			"ALTER TABLE t ALTER INDEX u "+map[string]string{"mysql": "INVISIBLE", "mariadb": "IGNORED"}[flavour])},
		{name: "ids of documents", on: "mysql", create: []string{"CREATE TABLE t (FTS_DOC_ID BIGINT UNSIGNED PRIMARY KEY, a TEXT, b TEXT, " +
			"FULLTEXT KEY f (a) COMMENT ')', FULLTEXT KEY g (b) WITH PARSER ngram)", "INSERT INTO t VALUES (60000, 'first', 'x')",
			"INSERT INTO t VALUES (120000, 'second', 'y')"}, then: []string{"INSERT INTO t VALUES (120001, 'third', 'z')"},
			same: []string{"SELECT * FROM t WHERE MATCH (a) AGAINST ('second')"}},
		{name: "narrow rows", create: filled("j", "(a INT, b INT, PRIMARY KEY (a, b))", "n, n", 19000)},
		{name: "a trigger of a dropped column", create: []string{"CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)",
			"CREATE TRIGGER tr BEFORE UPDATE ON t FOR EACH ROW SET NEW.w = NEW.v + 1",
			"CREATE TRIGGER other BEFORE INSERT ON t FOR EACH ROW SET NEW.v = 7", "ALTER TABLE t DROP COLUMN w"},
			then: []string{"INSERT INTO t (id) VALUES (1)"}, same: []string{"SELECT * FROM t"}, leftOut: []string{"trigger tr"}},
		{name: "programs of dropped accounts", create: []string{"CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)",
			"CREATE DEFINER = nobody_here@localhost VIEW v AS SELECT * FROM t", "CREATE DEFINER = nobody_here@localhost FUNCTION f() " +
				"RETURNS INT DETERMINISTIC RETURN 1"}, texts: []string{"view v"}},
		{name: "views that name a key", create: append(few("t", "(id INT PRIMARY KEY, v INT, f VARCHAR(255), KEY k (v))", "n, n, REPEAT('x', 250)"),
			"CREATE VIEW v AS SELECT id FROM t FORCE INDEX (k) WHERE v < 9", "CREATE VIEW a AS SELECT id FROM v")},
		{name: "a row in another partition", on: "mysql", refused: "Table t has rows in partitions to which they do not belong",
			create: append(few("t", "(id INT PRIMARY KEY, f VARCHAR(255)) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (1), "+
				"PARTITION p1 VALUES LESS THAN (9000))", "n, REPEAT('x', 250)"), "CREATE TABLE x (id INT PRIMARY KEY, f VARCHAR(255))",
				"INSERT INTO x VALUES (5000, 'x')", "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE x WITHOUT VALIDATION")},
		{name: "a row without a partition", on: "mysql", refused: "Table t has rows in partitions to which they do not belong",
			create: []string{"CREATE TABLE t (id INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (9))", "CREATE TABLE x (id INT)",
				"INSERT INTO x VALUES (10)", "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE x WITHOUT VALIDATION"}},
		{name: "a materialized view", on: "mysql", create: []string{"CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)",
			"CREATE MATERIALIZED VIEW v AS SELECT id FROM t"}, same: []string{"SELECT * FROM v"}},
		{name: "a masked column", on: "mysql", refused: "Table t has a masking policy", create: []string{
			"CREATE TABLE t (id INT, v VARCHAR(9) MASKING POLICY p)"}},
		{name: "a unique date of a time", refused: "Table t has rows with equal values of a unique key", create: []string{
			"SET time_zone = '+08:00'", "CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP NULL, d DATE AS (DATE(at)), UNIQUE KEY (d))",
			"INSERT INTO t (id, at) VALUES (1, '2024-06-01 03:00:00'), (2, '2024-05-31 23:00:00')"}},
		{name: "functions in latin1", create: []string{"SET NAMES latin1", "CREATE FUNCTION f(a ENUM('x) RETURNS INT', '\xe9')) RETURNS " +
			"ENUM('x', '\xe9') CHARACTER SET latin1 DETERMINISTIC COMMENT '\xe9' RETURN a", "SET NAMES utf8mb4"}},
		{name: "functions of a table's types", on: "later", create: []string{"CREATE TABLE t (a VARCHAR(20), b INT)",
			"CREATE FUNCTION f() RETURNS TYPE OF t.a RETURN 'x'", "SET sql_mode = 'ORACLE'", "CREATE FUNCTION g RETURN t.b%TYPE AS BEGIN RETURN 5; END"},
			same: []string{"SELECT f(), g()"}},
		{name: "times without a default", on: "?", create: []string{"SET SESSION explicit_defaults_for_timestamp = 1",
			"CREATE TABLE t (id INT PRIMARY KEY, a TIMESTAMP NOT NULL, b TIMESTAMP NULL)"}},
		{name: "a table without a key", on: "mysql?", refused: "Table t has no primary key", create: []string{
			"SET SESSION sql_generate_invisible_primary_key = 0", "CREATE TABLE t (a INT)"}},
		{name: "a key that MySQL has added", on: "mysql?", create: []string{"CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1), (1), (2)",
			"DELETE FROM t WHERE my_row_id = 2"}, same: []string{"SELECT my_row_id, a FROM t ORDER BY 1"}},
		{name: "columns that are not seen", create: []string{"CREATE TABLE t (id INT PRIMARY KEY, h VARBINARY(9) INVISIBLE DEFAULT x'FE')",
			"INSERT INTO t (id) VALUES (1)"}},
		{name: "a foreign key without an index of its parent", create: []string{"CREATE TABLE p (id INT PRIMARY KEY, k INT, UNIQUE KEY u (k))",
			"CREATE TABLE c (id INT PRIMARY KEY, k INT, FOREIGN KEY (k) REFERENCES p (k) ON DELETE SET NULL)", "INSERT INTO p VALUES (1, 1)",
			"INSERT INTO c VALUES (1, 1)", "SET foreign_key_checks = 0", "INSERT INTO c VALUES (2, 9)"}},
		{name: "a default that the SQL mode refuses", create: []string{"SET sql_mode = ''", "CREATE TABLE t (id INT PRIMARY KEY, " +
			"d DATE NOT NULL DEFAULT '0000-00-00')", "SET sql_mode = 'ALLOW_INVALID_DATES'",
			"CREATE TABLE u (id INT PRIMARY KEY, e DATETIME DEFAULT '2024-02-30')", "INSERT INTO u (id) VALUES (1)"}},
		{name: "the order of triggers", create: []string{"CREATE TABLE t (id INT PRIMARY KEY, v TEXT)",
			"CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW SET NEW.v = CONCAT(NEW.v, 'a')",
			"CREATE TRIGGER b BEFORE INSERT ON t FOR EACH ROW PRECEDES a SET NEW.v = CONCAT(NEW.v, 'b')",
			"CREATE TRIGGER c BEFORE INSERT ON t FOR EACH ROW FOLLOWS a SET NEW.v = CONCAT(NEW.v, 'c')",
			"CREATE TRIGGER d BEFORE INSERT ON t FOR EACH ROW /* x */ FOLLOWS b SET NEW.v = CONCAT(NEW.v, 'd')", "DROP TRIGGER a"},
			then: []string{"INSERT INTO t VALUES (1, '')"}, same: []string{"SELECT * FROM t"}},
		{name: "a foreign key to a key that is not unique", on: "mysql", create: []string{
			"SET SESSION restrict_fk_on_non_standard_key = OFF", "CREATE TABLE p (id INT PRIMARY KEY, k INT, KEY (k))",
			"CREATE TABLE c (id INT PRIMARY KEY, k INT, FOREIGN KEY (k) REFERENCES p (k))", "INSERT INTO p VALUES (1, 1), (2, 1)",
			"INSERT INTO c VALUES (1, 1)"}},
		{name: "a trigger with the name of its database", create: []string{"CREATE TABLE t (id INT PRIMARY KEY, v TEXT)",
			"CREATE TRIGGER `DB`.`t_bi` BEFORE INSERT ON `DB`.`t` FOR EACH ROW SET NEW.v = 'DB.t'",
			"CREATE TRIGGER /* DB.x ON DB.y FOR EACH ROW */ DB.t_bu BEFORE UPDATE\nON DB . t FOR EACH ROW SET NEW.v = 'u'",
			"CREATE EVENT `DB`.`e` ON SCHEDULE EVERY 1 YEAR DO DO 1", "CREATE VIEW `DB`.`v` AS SELECT * FROM `DB`.`t`"},
			then: []string{"INSERT INTO t (id) VALUES (1)", "UPDATE t SET id = 2"}, same: []string{"SELECT LENGTH(v) FROM t",
				"SELECT id FROM v"}, texts: []string{"trigger t_bi", "trigger t_bu"}},
		{name: "sequences that began again", on: "mariadb", create: []string{
			"CREATE SEQUENCE s START 8 MINVALUE 1 MAXVALUE 10 CYCLE NOCACHE", "DO NEXTVAL(s), NEXTVAL(s), NEXTVAL(s), NEXTVAL(s), NEXTVAL(s)",
			"CREATE SEQUENCE back START 3 MINVALUE 1 MAXVALUE 10 INCREMENT -1 CYCLE NOCACHE",
			"DO NEXTVAL(back), NEXTVAL(back), NEXTVAL(back), NEXTVAL(back)",
			"CREATE SEQUENCE set_back START 8 NOCACHE", "ALTER SEQUENCE set_back RESTART 3",
			"CREATE SEQUENCE ended START 1 MAXVALUE 2 NOCACHE", "DO NEXTVAL(ended), NEXTVAL(ended)",
			"CREATE SEQUENCE at_end START 1 MAXVALUE 2 CYCLE NOCACHE", "DO NEXTVAL(at_end), NEXTVAL(at_end)",
			"CREATE SEQUENCE cached START 1 MAXVALUE 10 CYCLE", "DO NEXTVAL(cached)"}},
		{name: "members without a name", create: []string{"SET sql_mode = ''",
			"CREATE TABLE t (id INT PRIMARY KEY, e ENUM('','a'), s SET('','a'))",
			"INSERT INTO t VALUES (1, 'nothing', 0), (2, '', 1), (3, 'a', 2), (4, 2, 3), (5, NULL, NULL)"}},
		{name: "versioned rows", on: "mariadb", create: []string{"CREATE TABLE v (id INT PRIMARY KEY, x INT) WITH SYSTEM VERSIONING",
			"INSERT INTO v VALUES (1, 1), (2, 2), (3, 3)", "UPDATE v SET x = 4 WHERE id = 3", "DELETE FROM v WHERE id = 2",
			"CREATE TABLE p (id INT PRIMARY KEY, t VARCHAR(60), f TIMESTAMP(6) GENERATED ALWAYS AS ROW START, u TIMESTAMP(6) GENERATED " +
				"ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (f, u)) WITH SYSTEM VERSIONING",
			`INSERT INTO p (id, t) VALUES (1, ',''2038-01-19 03:14:07.999999'')'), (2, 'x')`, "UPDATE p SET t = 'y' WHERE id = 2"},
			same: []string{"SELECT * FROM v ORDER BY id", "SELECT id, x, row_start FROM v FOR SYSTEM_TIME ALL ORDER BY id, x",
				"SELECT id, t FROM p ORDER BY id", "SELECT COUNT(*) FROM p FOR SYSTEM_TIME ALL", "SHOW CREATE TABLE v", "SHOW CREATE TABLE p"}},
		{name: "columns without versions", on: "mariadb", create: []string{"CREATE TABLE v (id INT PRIMARY KEY, x INT, y INT WITHOUT " +
			"SYSTEM VERSIONING, g INT AS (x + 1) STORED) WITH SYSTEM VERSIONING", "INSERT INTO v (id, x, y) VALUES (1, 1, 1)",
			"UPDATE v SET y = 2", "UPDATE v SET x = 2", "CREATE TABLE w (id INT PRIMARY KEY, x INT WITH SYSTEM VERSIONING)"},
			then: []string{"UPDATE v SET y = 3"}, same: []string{"SELECT id, x, y, g FROM v FOR SYSTEM_TIME ALL ORDER BY id, x"}},
		{name: "a virtual column without versions", on: "mariadb", refused: "Table v keeps no history of the generated column g,",
			create: []string{"CREATE TABLE v (id INT PRIMARY KEY, x INT WITH SYSTEM VERSIONING, g INT AS (x + 1))"}},
		{name: "a stored column without versions", on: "mariadb", refused: "Table v keeps no history of the generated column g,",
			create: []string{"CREATE TABLE v (id INT PRIMARY KEY, x INT WITH SYSTEM VERSIONING, g INT AS (x + 1) STORED)"}},
	}
}

// TestFaults copies, and dumps and loads, each of the databases, twice.
func TestFaults(t *testing.T) {
	t.Parallel()
	all := servers.AllMySQL(t)
	for n, one := range faults(mysqld.MySQL) {
		able := slices.DeleteFunc(slices.Clone(all), func(s servers.MySQL) bool { return one.on != "" && one.on != s.Flavour })
		if len(able) == 0 {
			continue
		}
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			servers.EachOf(t, able, func(t *testing.T, s servers.MySQL) { faults(s.Flavour)[n].expectSame(t, s, s) })
		})
	}
}

// TestLaterServer copies what only a later MariaDB has, and versioned rows from MariaDB before 11.5, where those that are
// present end in 2038, to a later one, where they end in 2106.
func TestLaterServer(t *testing.T) {
	t.Parallel()
	all := servers.AllMySQL(t)
	at := slices.IndexFunc(all, func(s servers.MySQL) bool { return s.Flavour == "mariadb" })
	if at < 0 { // as in EachMySQL, what is not installed is not tested
		return
	}
	into := testdrive.PrivateLater(t, "mariadb") // where no later one is installed, of the same program
	db := into.Admin(t)
	for _, one := range faults("mariadb") {
		if one.name == "versioned rows" {
			one.expectSame(t, all[at], into)
		}
		if one.on == "later" && launcher.CompareVersions(testdrive.Read[string](t, db, "SELECT VERSION()"), "11.8") >= 0 {
			one.expectSame(t, into, into)
		}
	}
}

// unusualSettings are those of servers that make other tables of some definitions than others.
var unusualSettings = map[string][]string{"mariadb": {"explicit-defaults-for-timestamp=OFF"}, "mysql": {
	"explicit-defaults-for-timestamp=OFF", "sql-generate-invisible-primary-key=ON",
	"show-gipk-in-create-table-and-information-schema=OFF"}}

// TestUnusualSettings copies on servers that have them.
func TestUnusualSettings(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		unusual := testdrive.PrivateWith(t, s.Flavour, unusualSettings[s.Flavour]...)
		for _, one := range faults(s.Flavour) {
			if on, is := strings.CutSuffix(one.on, "?"); is && (on == "" || on == s.Flavour) {
				t.Run(one.name, func(t *testing.T) { one.expectSame(t, unusual, unusual) })
			}
		}
	})
}

func (one fault) expectSame(t *testing.T, s, into servers.MySQL) {
	f := newFixtureInto(t, s, into)
	conn := f.conn(f.root, f.from.Database) // whose settings the statements change
	f.exec(conn, "SET NAMES utf8mb4", "SET SESSION sql_mode = DEFAULT, foreign_key_checks = 1",
		"ALTER DATABASE COLLATE utf8mb4_unicode_ci")
	for _, statement := range one.create {
		f.exec(conn, strings.ReplaceAll(statement, "DB", f.from.Database))
	}
	for _, dumps := range []bool{false, true} {
		f.must(transfer.Empty(t.Context(), f.to, func() error { return nil }))
		for range 2 { // also over what is there
			var leftOut []string
			err := f.copyOrRestore(dumps, transfer.Options{ChunkBytes: chunkBytes, Events: true, LeftOut: func(program string, broken bool, err error) bool {
				assert.True(t, broken, "%s is not broken: %v", program, err)
				leftOut = append(leftOut, program)
				return broken
			}})
			if one.refused != "" {
				refusal, refused := errors.AsType[*transfer.RefusedError](err)
				assert.True(t, refused && strings.HasPrefix(refusal.Sentence, one.refused), "dump %t: %v", dumps, err)
				continue
			}
			f.must(err)
			slices.Sort(leftOut)
			assert.True(t, slices.Equal(leftOut, one.leftOut), "dump %t: left out %q", dumps, leftOut)
			if s == into { // versions of servers tell different things
				f.expectCopied(slices.Concat(leftOut, one.texts)...)
			}
			for _, on := range []testdrive.Execer{f.source, f.copied} {
				f.exec(on, "BEGIN")
				f.exec(on, one.then...)
			}
			for _, query := range one.same {
				f.expectSame(query)
			}
			for _, on := range []testdrive.Execer{f.source, f.copied} {
				f.exec(on, "ROLLBACK") // of what was run before the queries
			}
		}
	}
}

// TestUnknownKinds refuses a database with objects of a kind that is not known.
func TestUnknownKinds(t *testing.T) {
	eachServer(t, func(t *testing.T, f *fixture) {
		f.must(transfer.CheckKinds(t.Context(), f.source, "EVENTS"))
		f.exec(f.source, "CREATE EVENT e ON SCHEDULE EVERY 1 YEAR DO DO 1")
		err := transfer.CheckKinds(t.Context(), f.source, "EVENTS")
		refusal, refused := errors.AsType[*transfer.RefusedError](err)
		assert.True(t, refused && strings.Contains(refusal.Sentence, "EVENTS"), "the database has an event: %v", err)
	})
}
