package transfer_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/transfer"
	"mysql-broker/test/servers"
)

// everything has each kind of object and value that copies are known to lose.
var everything = []string{
	"CREATE TABLE numbers (id INT AUTO_INCREMENT PRIMARY KEY, f FLOAT, d DOUBLE, n DECIMAL(30,10), b BIT(13), big BIGINT " +
		"UNSIGNED, y YEAR) AUTO_INCREMENT = 77",
	"INSERT INTO numbers VALUES (0, 16777217, -0.0, 1.5, b'1001011100', 18446744073709551615, 2024)",
	"INSERT INTO numbers (id, f, d, n, b) VALUES (1, 0.12345679, 1.7976931348623157e308, -0.0000000001, 0), " +
		"(2, 3.402823e38, 2.2250738585072014e-308, 12345678901234567890.0123456789, 8191), (-5, NULL, NULL, NULL, NULL)",
	"CREATE TABLE texts (id VARBINARY(20) PRIMARY KEY, u VARCHAR(50) CHARACTER SET utf8mb4, l VARCHAR(50) CHARACTER SET latin1, c VARCHAR(50) " +
		"COLLATE utf8mb4_bin, g VARCHAR(20) CHARACTER SET gbk, j JSON, e ENUM('a','ä','x') CHARACTER SET utf8mb4, s SET('p','q','r'), t LONGTEXT CHARACTER SET utf8mb4, " +
		"bl LONGBLOB, bi BINARY(4))",
	"INSERT INTO texts (id, u, l, g, j, e, s, t, bl, bi) VALUES (x'0001ff', 'it''s \\\\ \\0 \\n \\r \\Z \"😀', 'größe', " +
		"'中文', '{\"a\": [1, null, \"ü\"]}', 'ä', 'p,r', REPEAT('é', 70000), CONCAT(REPEAT(x'00275cff', 20000), x'80'), x'00')",
	"INSERT INTO texts (id, e, s, t) VALUES ('', '', '', '')",
	"CREATE TABLE times (id DATE PRIMARY KEY, dt DATETIME(6), ts TIMESTAMP(3) NULL, ti TIME(2))",
	"INSERT INTO times VALUES ('0000-00-00', '0000-00-00', '1970-01-01 00:00:01', '-838:59:59'), " +
		"('2024-02-29', '9999-12-31 23:59:59.999999', '2038-01-19 03:14:07.999', '12:00:00.25')",
	"CREATE TABLE `odd ``name`` ü` (`a b` INT, `select` INT GENERATED ALWAYS AS (`a b` * 2) STORED, v INT AS (`a b` + 1), " +
		"KEY (`a b`))",
	"INSERT INTO `odd ``name`` ü` (`a b`) VALUES (1), (1), (NULL)",
	"CREATE TABLE places (id INT PRIMARY KEY, p POINT NOT NULL, g GEOMETRY, SPATIAL KEY (p))",
	"INSERT INTO places VALUES (1, ST_GeomFromText('POINT(1 2)'), ST_GeomFromText('LINESTRING(0 0,1 1)')), " +
		"(2, ST_GeomFromText('POINT(3 4)'), NULL)",
	"CREATE TABLE parent (id INT PRIMARY KEY, up INT, child INT, FOREIGN KEY (up) REFERENCES parent (id))",
	"CREATE TABLE child (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES parent (id) ON DELETE CASCADE)",
	"ALTER TABLE parent ADD FOREIGN KEY (child) REFERENCES child (id)",
	"INSERT INTO parent VALUES (1, 1, 1), (2, 1, NULL)",
	"INSERT INTO child VALUES (1, 2)",
	"CREATE TABLE articles (id INT PRIMARY KEY, body TEXT, FULLTEXT KEY (body), CHECK (id > 0)) COMMENT 'it''s'",
	"INSERT INTO articles VALUES (1, 'a word'), (2, NULL)",
	"CREATE TABLE parts (id INT, day INT, PRIMARY KEY (id, day)) PARTITION BY RANGE (day) (PARTITION p0 VALUES LESS THAN " +
		"(10), PARTITION p1 VALUES LESS THAN MAXVALUE)",
	"INSERT INTO parts VALUES (1, 5), (1, 50), (2, 5)",
	"CREATE FUNCTION label() RETURNS VARCHAR(20) DETERMINISTIC RETURN 'DEFINER=`a`@`b` '",
	"CREATE VIEW z_last AS SELECT id, label() AS label FROM numbers",
	"CREATE VIEW a_first AS SELECT * FROM z_last",
	"CREATE PROCEDURE fill() BEGIN INSERT INTO articles (id) VALUES (9); END",
	"CREATE TRIGGER t_second BEFORE INSERT ON articles FOR EACH ROW SET NEW.body = CONCAT(NEW.body, '!')",
	"CREATE TRIGGER t_first BEFORE INSERT ON articles FOR EACH ROW SET NEW.body = CONCAT(NEW.body, '?')",
	"ALTER DATABASE COLLATE utf8mb4_bin",
	"SET time_zone = 'SYSTEM'",
	"CREATE EVENT tick ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01' COMMENT 'ENABLE' DO DELETE FROM articles",
	"CREATE EVENT once ON SCHEDULE AT '2037-01-01 00:00:00' ON COMPLETION PRESERVE DO DELETE FROM articles",
	"CREATE EVENT often ON SCHEDULE EVERY '1:30' MINUTE_SECOND STARTS '2036-01-01' ENDS '2037-01-01' DO DELETE FROM articles",
	"CREATE EVENT off ON SCHEDULE EVERY 1 YEAR ON COMPLETION PRESERVE DISABLE DO DELETE FROM articles",
	"SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT', character_set_client = latin1, collation_connection = latin1_german2_ci",
	"CREATE PROCEDURE \"old\"(p VARCHAR(9)) SELECT 'gr\xf6\xdfe' || p FROM \"numbers\"",
	"CREATE TRIGGER old_trigger AFTER DELETE ON child FOR EACH ROW SET @a = 'gr\xf6\xdfe' || 'x'",
	"SET sql_mode = '', time_zone = '+00:00', character_set_client = utf8mb4, collation_connection = utf8mb4_general_ci",
}

var ofMySQL = []string{
	"CREATE TABLE special (id INT PRIMARY KEY, hidden INT INVISIBLE DEFAULT 5, u CHAR(36) DEFAULT (UUID()), j JSON, " +
		"KEY k ((CAST(j->'$.a' AS UNSIGNED ARRAY))), s VARCHAR(9) COLLATE utf8mb4_0900_ai_ci)",
	"INSERT INTO special (id, hidden, u, j, s) VALUES (1, 42, UUID(), '{\"a\": [1, 2]}', 'x')",
	"CREATE TABLE padded (id INT PRIMARY KEY, v BLOB AS (LPAD(1, 2000000000, 10)) STORED)",
	"INSERT INTO padded (id) VALUES (1)", // v is longer than a packet, and therefore NULL
}

var ofMariaDB = []string{
	"CREATE TABLE special (id UUID PRIMARY KEY, hidden INT INVISIBLE DEFAULT 5, i INET6, s VARCHAR(9) COLLATE " +
		"utf8mb4_uca1400_ai_ci)",
	"INSERT INTO special (id, hidden, i, s) VALUES (UUID(), 42, '::1', 'x')",
	"CREATE SEQUENCE seq START 100 INCREMENT 5 MAXVALUE 1000 CYCLE",
	"DO NEXTVAL(seq)",
	"CREATE TABLE history (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING",
	"INSERT INTO history VALUES (1, 1), (2, 1)",
	"UPDATE history SET v = 2 WHERE id = 1",
	"DELETE FROM history WHERE id = 2",
	"CREATE TABLE named (id INT PRIMARY KEY, f TIMESTAMP(6) GENERATED ALWAYS AS ROW START, t TIMESTAMP(6) GENERATED ALWAYS " +
		"AS ROW END, PERIOD FOR SYSTEM_TIME (f, t)) WITH SYSTEM VERSIONING",
	"INSERT INTO named (id) VALUES (1)",
	"DELETE FROM named",
	"CREATE TABLE counted (id BIGINT DEFAULT NEXTVAL(seq) PRIMARY KEY, v INT)",
	"CREATE TABLE to_count (id BIGINT DEFAULT (NEXTVAL(seq) + 1) PRIMARY KEY, v INT)",
	"INSERT INTO counted (v) VALUES (1), (2)",
	"INSERT INTO to_count (v) VALUES (1)",
	"CREATE TABLE keyless (id INT PRIMARY KEY, up INT, CONSTRAINT `a ``key` FOREIGN KEY (up) REFERENCES parent (id))",
	"ALTER TABLE keyless DROP KEY `a ``key`", "INSERT INTO keyless VALUES (1, 1)",
	"SET SESSION innodb_strict_mode = 0",
	"CREATE TABLE lenient (id INT PRIMARY KEY, v INT) ROW_FORMAT=DYNAMIC KEY_BLOCK_SIZE=4",
	"INSERT INTO lenient VALUES (1, 2)",
	"SET SESSION innodb_strict_mode = 1, sql_mode = 'ORACLE'",
	"CREATE PACKAGE tools AS FUNCTION one RETURN INT; END",
	"CREATE PACKAGE BODY tools AS FUNCTION one RETURN INT AS BEGIN RETURN 1; END; END",
	"SET SESSION sql_mode = ''",
}

// createEverything creates every kind of object and value in the source that its flavour has.
func (f *fixture) createEverything() {
	f.exec(f.source, everything...)
	if f.mariaDB {
		f.exec(f.source, slices.Concat(ofMariaDB, odd, oddInMariaDB)...)
	} else {
		f.exec(f.source, slices.Concat(ofMySQL, odd, oddInMySQL)...)
	}
}

const enabled = "SELECT event_name AS n FROM information_schema.events " +
	"WHERE event_schema = DATABASE() AND status = 'ENABLED'"

// TestCopy copies every kind of object and value, and copies once more after the source and the copy have changed.
func TestCopy(t *testing.T) {
	eachServer(t, func(t *testing.T, f *fixture) {
		f.createEverything()
		// Several chunks, with gaps between their keys.
		f.exec(f.source, filled("many", "(id BIGINT PRIMARY KEY, filler CHAR(255) NOT NULL, n INT, UNIQUE KEY (n), "+
			"KEY second (filler(9) DESC, n) COMMENT 'a, (b)', KEY first (n, id))",
			"IF(n = 1, -9000000000000000000, n - 1), REPEAT('x', 255), n", 1<<13)...)
		calls, before := 0, uint64(0)
		o := transfer.Options{ChunkBytes: chunkBytes, Workers: 2, Events: true, Progress: func(done, total uint64) {
			if calls++; done < before || total == 0 {
				t.Errorf("progress: %d of %d, after %d", done, total, before)
			}
			before = done
		}}
		var later transfer.Events
		o.Later = &later
		f.must(transfer.Copy(t.Context(), f.from, f.to, o))
		running := f.all(f.copied, enabled)
		assert.False(t, len(f.all(f.source, enabled)) == 0 || len(running) > 0,
			"events that run before they are to: %q", running)
		f.must(later.Enable(t.Context(), f.to, func() error { return nil }))
		f.compare()
		o.Later = nil
		assert.True(t, calls >= 4, "progress was reported %d times", calls)

		f.exec(f.copied, "DELETE FROM many WHERE id % 1000 = 7", "UPDATE many SET filler = 'y' WHERE id = 3000",
			"INSERT INTO many VALUES (9000000000000000000, 'z', -1)", "DROP TABLE parts", "CREATE TABLE parts (other INT)",
			"CREATE TABLE extra (id INT)", "DROP VIEW z_last", "DROP TABLE child", "UPDATE texts SET t = CONCAT(t, 'x')")
		f.exec(f.source, "UPDATE many SET n = -n WHERE id BETWEEN 5 AND 9", "ALTER TABLE times ADD COLUMN added INT DEFAULT 3",
			"DROP FUNCTION label", "CREATE FUNCTION label() RETURNS VARCHAR(20) DETERMINISTIC RETURN 'new'")
		before = 0
		f.must(transfer.Copy(t.Context(), f.from, f.to, o))
		f.compare()

		// A copy was interrupted before it had added the keys. The rows stay.
		f.exec(f.copied, "ALTER TABLE many DROP KEY second, DROP KEY first")
		o.MaxBytes = 2 << 20
		before = 0
		f.must(transfer.Copy(t.Context(), f.from, f.to, o))
		f.compare()
	})
}

// wide makes a table of so many rows of 3 KB, with a unique key besides the primary one.
func wide(rows int) []string {
	return filled("many", "(id BIGINT PRIMARY KEY, n INT, filler VARCHAR(3000) NOT NULL, UNIQUE KEY (n))",
		"n, n, REPEAT('x', 3000)", rows)
}

// TestUniqueValuesThatMove copies and loads a table again after the values of a unique key have moved to rows of other
// chunks, as an application does that writes during a copy.
func TestUniqueValuesThatMove(t *testing.T) {
	eachServer(t, func(t *testing.T, f *fixture) {
		const rows = 1 << 9
		f.exec(f.source, wide(rows)...)
		d := f.dump(transfer.Options{ChunkBytes: chunkBytes})
		require.GreaterOrEqual(t, len(d.Parts), 2, "chunks of the table")
		for _, o := range []transfer.Options{{Workers: 1}, {Workers: 2}, {Gentle: true}} {
			o.ChunkBytes = chunkBytes
			f.must(transfer.Copy(t.Context(), f.from, f.to, o))
			f.exec(f.source, "UPDATE many SET n = -n", fmt.Sprintf("UPDATE many SET n = n + %d", rows+1))
			f.must(transfer.Copy(t.Context(), f.from, f.to, o))
			f.expectCopied()
			f.exec(f.source, "UPDATE many SET n = -n", fmt.Sprintf("UPDATE many SET n = n + %d", rows+1)) // as dumped
			f.must(transfer.Load(t.Context(), d.Schema, d.Parts, f.to, o))
			f.expectCopied()
		}
	})
}

// TestKnownChunks copies a table gently while it is written to, and completes the copy with what the first one knows of
// the target.
func TestKnownChunks(t *testing.T) {
	eachServer(t, func(t *testing.T, f *fixture) {
		const rows = 1 << 11
		f.exec(f.source, wide(rows)...)
		f.exec(f.source, "CREATE TABLE few (id INT PRIMARY KEY, n INT)", "INSERT INTO few VALUES (1, 1)",
			"CREATE TABLE altered (id INT PRIMARY KEY, n INT)", "INSERT INTO altered VALUES (1, 1)", "CREATE TABLE none (n INT)")
		known := new(transfer.Known)
		rest := transfer.Options{ChunkBytes: chunkBytes, Known: known}
		gentle := rest
		gentle.Gentle, gentle.RowsOnly = true, true
		f.must(transfer.Copy(t.Context(), f.from, f.to, gentle))
		f.must(transfer.Copy(t.Context(), f.from, f.to, gentle)) // after an interruption
		f.must(transfer.Copy(t.Context(), f.from, f.to, rest))
		f.expectCopied()
		// The beginning, something in the middle, values that move, and many new rows at the end.
		f.exec(f.source, "DELETE FROM many WHERE id < 10", "UPDATE many SET filler = 'y' WHERE id = 1000",
			"UPDATE many SET n = -n WHERE id IN (100, 2000)", "UPDATE many SET n = 2000 WHERE id = 100",
			"UPDATE many SET n = 100 WHERE id = 2000", "UPDATE few SET n = NULL", "INSERT INTO none VALUES (NULL)",
			"ALTER TABLE altered ADD m INT DEFAULT 7", fmt.Sprintf("INSERT INTO many SELECT id + %[1]d, n + %[1]d, filler FROM many "+
				"WHERE id > 500", 2*rows))
		f.must(transfer.Copy(t.Context(), f.from, f.to, rest))
		f.expectCopied()
		f.must(transfer.Copy(t.Context(), f.from, f.to, rest)) // once more, with chunks that were written since
		f.expectCopied()

		// The target is not read again where it is known, or this would be noticed.
		f.must(transfer.Copy(t.Context(), f.from, f.to, gentle))
		f.exec(f.copied, "UPDATE many SET filler = 'z' WHERE id = 500")
		f.must(transfer.Copy(t.Context(), f.from, f.to, rest))
		assert.Equal(t, []string{`filler="z" `}, f.all(f.copied, "SELECT filler FROM many WHERE id = 500"),
			"the target was read again")
		known.Restart()
		f.must(transfer.Copy(t.Context(), f.from, f.to, rest))
		f.expectCopied()
	})
}

// TestRefusals tries to copy what cannot be copied completely.
func TestRefusals(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		cases := map[string][]string{
			"The database has events, ":          {"CREATE EVENT e ON SCHEDULE EVERY 1 YEAR DO DO 1"},
			"The view v cannot be created ":      {"CREATE VIEW v AS SELECT user FROM mysql.user"}, // which its owner may not see
			"The database holds more data ":      {"CREATE TABLE t AS SELECT REPEAT('x', 5000) AS x"},
			"The server cannot read table lost ": {"CREATE TABLE lost (id INT)", "ALTER TABLE lost DISCARD TABLESPACE"},
			"Table u ": {"SET sql_mode = 'NO_UNSIGNED_SUBTRACTION'",
				"CREATE TABLE u (a INT UNSIGNED, b INT UNSIGNED, c INT AS (a - b) STORED)", "INSERT INTO u (a, b) VALUES (1, 2)"},
		}
		if s.Flavour == "mariadb" {
			cases["Table ended has a former row "] = []string{"SET timestamp = 1700000000",
				"CREATE TABLE ended (id INT) WITH SYSTEM VERSIONING", "INSERT INTO ended VALUES (1)", "UPDATE ended SET id = 2",
				"DELETE FROM ended"}
			cases["Table counted has a row with NULL in the column n, which has AUTO_INCREMENT"] = []string{
				"CREATE TABLE counted (n TINYINT AUTO_INCREMENT NULL, v INT, KEY (n)) AUTO_INCREMENT = 127",
				"INSERT IGNORE INTO counted (v) VALUES (1), (2), (3)"}
			cases["The server cannot open the view v: "] = []string{"CREATE TABLE h (id INT) WITH SYSTEM VERSIONING",
				"CREATE VIEW v AS SELECT id FROM h FOR SYSTEM_TIME FROM '2000-01-01' TO NOW()"}
		} else {
			cases["Table n has a row for which a generated column"] = []string{"CREATE TABLE n (a INT)", "INSERT INTO n VALUES (1)",
				"ALTER TABLE n ADD d DATE AS (NULL) VIRTUAL NOT NULL"}
			cases["Table j has a row for which a generated column"] = []string{"CREATE TABLE j (s VARCHAR(9))",
				"INSERT INTO j VALUES ('')", "ALTER TABLE j ADD v JSON AS (s)"}
			cases["Table g has a row for which a generated column"] = []string{"CREATE TABLE g (s VARCHAR(30))",
				`INSERT INTO g VALUES ('{"type": "Point"}')`, "ALTER TABLE g ADD p GEOMETRY AS (ST_GeomFromGeoJSON(s))"}
			cases["Table m has a row for which a generated column"] = []string{"CREATE TABLE m (s INT)",
				"INSERT INTO m VALUES (1)", "ALTER TABLE m ADD p POINT AS (ST_GeomFromText(NULL)) NOT NULL"}
			cases["The server cannot read the text of the view sjis "] = []string{"SET NAMES sjis",
				"CREATE VIEW sjis AS SELECT '\x95\\' AS a"}
			cases["The server cannot read the text of the view ordered "] = []string{"CREATE TABLE t (a INT, b INT)",
				"CREATE VIEW ordered AS SELECT a FROM t WHERE b = (SELECT 1 UNION SELECT a FROM t ORDER BY b)"}
		}
		for says, statements := range cases {
			f := newFixture(t, s)
			f.exec(f.source, statements...)
			err := transfer.Copy(t.Context(), f.from, f.to, transfer.Options{MaxBytes: 4000})
			refusal, refused := errors.AsType[*transfer.RefusedError](err)
			assert.True(t, refused && strings.HasPrefix(refusal.Sentence, says), "%q: %v", statements, err)
		}
		if s.Flavour == "mariadb" { // where the last view needs more memory to open than a session may take
			f := newFixture(t, s)
			f.exec(f.source, "CREATE TABLE t (a INT PRIMARY KEY)", "CREATE VIEW v0 AS SELECT * FROM t")
			for n, err := 0, error(nil); err == nil && n < 20; n++ { // as many as the server lets anybody create
				_, err = f.source.ExecContext(t.Context(), fmt.Sprintf("CREATE VIEW v%d AS SELECT x.a FROM v%d x JOIN v%[2]d y "+
					"USING (a)", n+1, n))
			}
			var left []string
			leftOut := func(view string, broken bool, _ error) bool {
				left = append(left, view)
				return broken
			}
			f.must(transfer.Copy(t.Context(), f.from, f.to, transfer.Options{LeftOut: leftOut}))
			assert.False(t, len(left) == 0 || len(f.all(f.copied, "SHOW TABLES")) < 5, "left out: %q", left)
		}
		f := newFixture(t, s)
		f.exec(f.source, "CREATE VIEW v AS SELECT * FROM information_schema.tables")
		f.must(transfer.Copy(t.Context(), f.from, f.to, transfer.Options{}))
		f.exec(f.source, "CREATE PROCEDURE secret() SELECT 1")
		f.exec(f.root, "GRANT EXECUTE ON "+f.from.Database+".* TO "+f.reader)
		f.from.Programs = f.from.Rows // may not read it
		err := transfer.Copy(t.Context(), f.from, f.to, transfer.Options{})
		_, refused := errors.AsType[*transfer.RefusedError](err)
		assert.True(t, refused && strings.Contains(err.Error(), "SHOW_ROUTINE"), "a routine that may not be read: %v", err)
	})
}

// An event that another node of a cluster runs looks disabled where it is read. The copy runs it, but none that no node
// runs.
func TestCopyEventsOfAnotherNode(t *testing.T) {
	eachServer(t, func(t *testing.T, f *fixture) {
		for _, name := range []string{"`runs ``on`", "off"} {
			f.exec(f.source, "CREATE EVENT "+name+" ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01' DISABLE ON SLAVE DO DO 1")
		}
		f.from.Running = []string{"runs `on"}
		var later transfer.Events
		f.must(transfer.Copy(t.Context(), f.from, f.to, transfer.Options{Events: true, Later: &later}))
		f.must(later.Enable(t.Context(), f.to, func() error { return nil }))
		running := f.all(f.copied, enabled)
		assert.True(t, len(running) == 1 && strings.Contains(running[0], "runs `on"), "these events run: %q", running)
	})
}
