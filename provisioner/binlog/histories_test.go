package binlog_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/binlog"
	"mysql-broker/provisioner/launcher/mysqld"
)

// history is what happens in a database before and after its backup. Statements are those of tenant.run.
type history struct {
	on            string // a flavour, and perhaps a version; empty for all
	before, after []string
	refused       string // a part of what the log is said to have, if it cannot be replayed
}

// TestHistories replays the logs of servers, and compares with the database that wrote them.
func TestHistories(t *testing.T) {
	t.Parallel()
	for name, h := range histories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachServer(t, h.on, h.expect)
		})
	}
}

func (h history) expect(t *testing.T, s server) {
	source, target := s.tenant(t), s.tenant(t)
	source.run(t, h.before...)
	target.run(t, h.before...)
	from := s.position(t)
	source.run(t, h.after...)
	err := source.replay(t, from, target)
	if h.refused != "" {
		unsupported, _ := errors.AsType[*binlog.UnsupportedError](err)
		assert.True(t, unsupported != nil && strings.Contains(unsupported.What, h.refused),
			"%v, not refused for %s", err, h.refused)
		return
	}
	require.NoError(t, err)
	assert.Empty(t, source.differences(t, target), "of the replay")
	assert.Empty(t, target.damage(t), "damage of the target")
}

var (
	keyless = []string{"CREATE TABLE t (v INT)", "INSERT INTO t VALUES (3), (1), (2)"}
	keyed   = []string{"CREATE TABLE t (v INT PRIMARY KEY, d DATETIME, at TIMESTAMP NULL)",
		"SET time_zone = '+00:00'", "INSERT INTO t VALUES (3, '2024-01-07 05:06:07', '2024-05-31 20:00:00'), (1, NULL, NULL), " +
			"(2, '2024-06-01 23:59:59', '2024-05-31 16:00:00')"}
	zoned = []string{"SET time_zone = '+08:00'", "ALTER TABLE t ADD COLUMN s DATE AS (DATE(at)) STORED",
		"INSERT INTO t (v, at) VALUES (9, '2024-06-01 03:00:00')", "@SET time_zone = '-03:00'",
		"@INSERT INTO t (v, at) VALUES (10, '2024-06-01 23:00:00')", "@UPDATE t SET d = NOW() WHERE v > 1",
		"UPDATE t SET d = NULL WHERE v = 10", "DELETE FROM t WHERE v = 9"}
)

// chained are tables of which a foreign key changes the next.
var chained = []string{"CREATE TABLE `p 1` (id INT PRIMARY KEY)",
	"CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES `p 1` (id) ON DELETE CASCADE)",
	"CREATE TABLE d (id INT PRIMARY KEY, c INT, FOREIGN KEY (c) REFERENCES c (id) ON DELETE SET NULL)",
	"INSERT INTO `p 1` VALUES (1), (2)", "INSERT INTO c VALUES (3, 1), (4, 2)", "INSERT INTO d VALUES (5, 3), (6, 4)"}

// storedDates has the date of a session, which is another one in UTC.
var storedDates = []string{"CREATE TABLE t (id INT PRIMARY KEY, a TIME, b DATE AS (a) STORED, d INT AS (DAY(a)) STORED)",
	"SET time_zone = '+08:00', timestamp = 1704225600", "INSERT INTO t (id, a) VALUES (1, '10:00')"}

// counted is a table whose default takes values of a sequence, and others that triggers write with it.
var counted = []string{"CREATE SEQUENCE s CACHE 2 INCREMENT 10", "CREATE TABLE t (id INT PRIMARY KEY DEFAULT NEXTVAL(s), v INT)",
	"CREATE TABLE u (v INT PRIMARY KEY)", "INSERT INTO u VALUES (1), (2), (3), (4), (5)"}

var histories = map[string]history{
	"rows of more than a session's memory": {on: "mariadb", before: []string{"CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB)",
		"INSERT INTO t VALUES (1, REPEAT('x', 30 << 20))"}, after: []string{"UPDATE t SET id = 2"}, refused: "rows so long"},
	"a sequence in a trigger": {on: mysqld.MariaDB, before: counted, after: []string{
		"CREATE TRIGGER r BEFORE UPDATE ON u FOR EACH ROW INSERT INTO t (v) VALUES (OLD.v)", "UPDATE u SET v = v + 10"}},
	"a sequence beside a trigger": {on: mysqld.MariaDB, before: counted, after: []string{
		"CREATE TRIGGER r AFTER INSERT ON t FOR EACH ROW INSERT INTO u VALUES (NEW.v)", "INSERT INTO t (v) VALUES (6), (7)"}},
	"a sequence in a function": {on: mysqld.MariaDB, before: counted, after: []string{
		"CREATE FUNCTION f() RETURNS INT BEGIN INSERT INTO t (v) VALUES (5); RETURN 1; END", "DO f()"}},
	"a sequence that descends": {on: mysqld.MariaDB, before: counted, after: []string{"CREATE SEQUENCE d START -1 INCREMENT -3",
		"ALTER TABLE t ALTER id SET DEFAULT NEXTVAL(d)",
		"CREATE TRIGGER r BEFORE UPDATE ON u FOR EACH ROW INSERT INTO t (v) VALUES (OLD.v)", "UPDATE u SET v = v + 10"}},
	"a sequence that is used up": {on: mysqld.MariaDB, before: counted, after: []string{"ALTER SEQUENCE s MAXVALUE 45",
		"CREATE TRIGGER r BEFORE UPDATE ON u FOR EACH ROW INSERT INTO t (v) VALUES (OLD.v)", "UPDATE u SET v = v + 10"}},
	"a sequence that cycles": {on: mysqld.MariaDB, before: counted, after: []string{"ALTER SEQUENCE s MAXVALUE 15 CYCLE",
		"INSERT INTO t (v) VALUES (1), (2)", "DELETE FROM t WHERE v = 1", "INSERT INTO t (v) VALUES (3)"}},
	"a history by transactions": {on: mysqld.MariaDB, after: []string{"CREATE TABLE t (v INT, s BIGINT UNSIGNED " +
		"GENERATED ALWAYS AS ROW START, e BIGINT UNSIGNED GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (s, e)) " +
		"WITH SYSTEM VERSIONING", "INSERT INTO t (v) VALUES (1)"}, refused: "a history by transactions"},
	"a history that a foreign key ends": {on: mysqld.MariaDB, before: append(chained, "ALTER TABLE d ADD SYSTEM VERSIONING"),
		after: []string{"INSERT INTO `p 1` VALUES (9)", "UPDATE `p 1` SET id = 8 WHERE id = 9", "DELETE FROM `p 1` WHERE id = 1"}, refused: "rows of the table `p 1`, which has foreign keys that may end former rows of other tables"},
	"a history that no foreign key ends": {on: mysqld.MariaDB, before: chained,
		after: []string{"ALTER TABLE d ADD SYSTEM VERSIONING", "INSERT INTO `p 1` VALUES (9)", "UPDATE `p 1` SET id = 8 WHERE id = 9", "DELETE FROM d WHERE id = 5"}},
	"a history beside foreign keys": {on: mysqld.MariaDB, before: chained, after: []string{
		"CREATE TABLE v (id INT PRIMARY KEY) WITH SYSTEM VERSIONING", "INSERT INTO v VALUES (1), (2)", "DELETE FROM `p 1` WHERE id = 1", "DELETE FROM v", "UPDATE d SET c = NULL"}},
	"a history of the child of another table": {on: mysqld.MariaDB, before: append(chained, "CREATE TABLE q (id INT PRIMARY KEY)",
		"CREATE TABLE v (id INT PRIMARY KEY, q INT, FOREIGN KEY (q) REFERENCES q (id) ON DELETE CASCADE) WITH SYSTEM VERSIONING"),
		after: []string{"INSERT INTO q VALUES (1)", "INSERT INTO v VALUES (2, 1)", "DELETE FROM `p 1` WHERE id = 1"}},
	"only virtual columns": {on: "mariadb-11", after: []string{"CREATE TABLE t (a INT AS (1), b INT AS (2))",
		"INSERT INTO t VALUES (), (), ()", "DELETE FROM t LIMIT 2"}, refused: "rows of the table `t`, which has only virtual columns"},
	"a key of a virtual column": {on: "mariadb-11", after: []string{"CREATE TABLE t (a INT, v BLOB AS ('') VIRTUAL, " +
		"UNIQUE KEY (v(1), a))", "INSERT INTO t (a) VALUES (1)", "UPDATE t SET a = 2"}, refused: "does not find again"},
	"a comment between words": {on: mysqld.MySQL, after: []string{"CREATE TABLE t (v INT)",
		"CREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW INSERT/*!INTO*/t VALUES (1)"}, refused: "a statement about the trigger `r` that the server does not understand again"},
	"only virtual columns before": {on: "mariadb-10.11", after: []string{"CREATE TABLE t (a INT AS (1), b INT AS (2))",
		"INSERT INTO t VALUES (), (), ()", "DELETE FROM t LIMIT 2"}},
	"the zone of a default": {after: []string{"SET time_zone = '+08:00'",
		"CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP NOT NULL DEFAULT '2024-02-03 04:05:06') DEFAULT CHARSET=utf8mb4",
		"@CREATE TABLE u (id INT PRIMARY KEY, at TIMESTAMP NOT NULL DEFAULT '2024-02-03 04:05:06')",
		"INSERT INTO t (id) VALUES (1)"}},
	"two character sets": {after: []string{"SET NAMES latin1", "CREATE TABLE first (id INT PRIMARY KEY)",
		"@CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) DEFAULT 'é') DEFAULT CHARSET=utf8mb4",
		"CREATE TABLE u (id INT PRIMARY KEY, v VARCHAR(9) DEFAULT '\xe9') DEFAULT CHARSET=utf8mb4",
		"CREATE TABLE w (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET latin1 COMMENT '\xe9\xe8')",
		"@INSERT INTO t (id) VALUES (1)"}},
	"texts of the server": {before: []string{"CREATE TABLE s (id INT PRIMARY KEY, v VARCHAR(9) DEFAULT '漢' COMMENT 'é漢') COMMENT 'ü'",
		"INSERT INTO s (id) VALUES (1)", "CREATE TABLE é (id INT)", "CREATE TABLE è (id INT)", "CREATE VIEW ü AS SELECT 1"},
		after: []string{"SET NAMES latin1", "CREATE TABLE t (PRIMARY KEY (id)) COMMENT '\xe9' AS SELECT * FROM s",
			"CREATE TABLE u LIKE s", "DROP TABLE \xe9", "DROP TABLE IF EXISTS \xe8", "DROP VIEW IF EXISTS \xfc",
			"CREATE TABLE \xf6 (id INT COMMENT '\xe9')", "RENAME TABLE \xf6 TO \xe4"}},
	"names of a client": {before: []string{"CREATE TABLE tä (v INT PRIMARY KEY)", "INSERT INTO tä VALUES (1)"}, after: []string{
		"SET NAMES latin1", "ALTER TABLE t\xe4 ADD c VARCHAR(9) DEFAULT '\xe4'",
		"CREATE PROCEDURE `p\xe4`(`x\xe4` ENUM('(\xe4','b)'), OUT y INT) COMMENT '\xe4 '' x' DETERMINISTIC SELECT '\xe4'",
		"CREATE FUNCTION `f\xe4`(a ENUM('\xe4')) RETURNS ENUM('\xe4','''') DETERMINISTIC COMMENT '\xfc\\n' RETURN '\xe4'",
		"CREATE FUNCTION f(a INT) RETURNS INT DETERMINISTIC RETURN LENGTH('\xe4')",
		"CREATE VIEW `v\xe4` (`\xe4`, `AS`, `\xf6`) AS SELECT 1, '\xe4', v FROM `t\xe4`", "ALTER VIEW `v\xe4` AS SELECT '\xfc' AS `z\xe4`",
		"CREATE TRIGGER `r\xe4` BEFORE INSERT ON `t\xe4` FOR EACH ROW SET NEW.c = '\xe4'", "ALTER PROCEDURE `p\xe4` COMMENT '\xf6'",
		"CREATE EVENT `e\xe4` ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01' COMMENT '\xe4' DO SELECT '\xe4'", "SET NAMES sjis",
		"CREATE PROCEDURE `\x95\x5c`(`\x83\x5c` INT) COMMENT '\x95\x5c' SELECT '\x95\x5c'",
		"CREATE VIEW `v\x95\x5c` AS SELECT 1 AS `\x83\x5c`", "CREATE TABLE `u\x95\x5c` AS SELECT 1 AS a",
		"CREATE TABLE \x83\x60 (a INT)", "CREATE TABLE w (b INT)", "CREATE VIEW k AS SELECT '\xb1' AS c, a, b FROM \x83\x60, $DB.w"}},
	"a package of a client": {on: mysqld.MariaDB, after: []string{"SET NAMES latin1, sql_mode = 'ORACLE'",
		"CREATE PACKAGE \"p\xe4\" COMMENT '\xe4' AS FUNCTION f1 RETURN INT; END"}},
	"numbers of rows of a table of a client": {before: []string{"CREATE TABLE tä (v INT)", "INSERT INTO tä VALUES (3), (1)"},
		after: []string{"SET NAMES latin1", "ALTER TABLE t\xe4 ADD n INT AUTO_INCREMENT PRIMARY KEY"}, refused: "`tä`"},
	"a setting of one statement": {on: mysqld.MariaDB, after: []string{"SET STATEMENT time_zone = '+08:00', max_statement_time = 900 FOR " +
		"CREATE TABLE t (b TIMESTAMP DEFAULT '2024-01-01 00:00:00')"}},
	"a mode of one statement": {on: mysqld.MariaDB, after: []string{"SET STATEMENT sql_mode = 'PIPES_AS_CONCAT' FOR " +
		"CREATE TABLE t (a VARCHAR(9) DEFAULT ('a' || 'b'))"}, refused: "SET STATEMENT sql_mode"},
	"an index by a mode of one statement": {on: mysqld.MariaDB, before: keyless, after: []string{
		"SET STATEMENT sql_mode = '' FOR CREATE INDEX i ON t (v)"}, refused: "a statement whose result depends on SET STATEMENT sql_mode"},
	"a multi-byte character set": {after: []string{"SET NAMES sjis", "SET sql_mode = 'ANSI_QUOTES'",
		"CREATE TABLE \"t\" (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET sjis DEFAULT '\x83\x5c') DEFAULT CHARSET=utf8mb4",
		"ALTER TABLE t ADD COLUMN w VARCHAR(9) COMMENT '\x83\x5c, RAND()' DEFAULT 'x'"}},
	"steps of AUTO_INCREMENT": {after: []string{"CREATE TABLE t (v INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2), (3)",
		"SET auto_increment_increment = 10, auto_increment_offset = 5", "ALTER TABLE t ADD COLUMN n INT AUTO_INCREMENT UNIQUE",
		"@CREATE TABLE u (v INT PRIMARY KEY)", "@INSERT INTO u VALUES (1), (2), (3)",
		"@ALTER TABLE u ADD COLUMN n INT AUTO_INCREMENT UNIQUE"}},
	"a language": {before: keyed, after: []string{"SET lc_time_names = 'de_DE'",
		"ALTER TABLE t ADD COLUMN m VARCHAR(20) DEFAULT (MONTHNAME('2024-05-01'))",
		"@ALTER TABLE t ADD COLUMN n VARCHAR(20) DEFAULT (MONTHNAME('2024-05-01'))"}},
	"a time": {before: keyed, after: []string{"ALTER TABLE t ADD COLUMN a TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6)",
		"SET time_zone = '+05:30'", "ALTER TABLE t ADD COLUMN b DATETIME(3) DEFAULT NOW(3), ADD COLUMN c DATE DEFAULT (CURRENT_DATE)",
		"SET timestamp = 1700000000.25", "ALTER TABLE t ADD COLUMN e DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6)"}},
	"a zone of stored columns":          {on: mysqld.MySQL, before: keyed, after: zoned},
	"a zone of stored columns, MariaDB": {on: "mariadb-10.11", before: keyed, after: zoned},
	"an unknown zone of stored columns": {on: "mariadb-11", before: keyed, after: zoned, refused: "time zone"},
	"stored columns": {before: []string{"CREATE TABLE t (v INT PRIMARY KEY, d DATE AS (v + 20240101) STORED, x DECIMAL(9,5) AS (v / 7) STORED, " +
		"at TIMESTAMP NULL, CHECK (v < 100))"}, after: []string{"INSERT INTO t (v) VALUES (1), (2)", "UPDATE t SET v = 8 WHERE v = 1"}},
	"a check in a zone": {before: []string{"CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP NULL, CHECK (HOUR(at) BETWEEN 8 AND 17))"},
		after: []string{"SET time_zone = '+08:00'", "INSERT INTO t VALUES (1, '2024-01-01 09:00:00')", "UPDATE t SET id = 2"}},
	"zero as number": {before: []string{"CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, d DATE)"}, after: []string{
		"SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'", "INSERT INTO t VALUES (0, '2024-02-31')", "@INSERT INTO t VALUES (0, NULL)"}},
	"XA in a zone": {on: mysqld.MySQL, before: slices.Concat(keyed, []string{
		"ALTER TABLE t ADD COLUMN s DATE AS (DATE(at)) STORED"}), after: []string{"SET time_zone = '+08:00'", "XA START 'x$DB'",
		"INSERT INTO t (v, at) VALUES (9, '2024-06-01 03:00:00')", "XA END 'x$DB'", "XA PREPARE 'x$DB'", "@INSERT INTO t (v, at) VALUES (11, NOW())", "XA COMMIT 'x$DB'"}},
	"sql_mode": {after: []string{"SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
		`CREATE TABLE "t" ("a b" VARCHAR(9) DEFAULT '\', b INT)`, "SET sql_mode = 'PIPES_AS_CONCAT'",
		"CREATE VIEW v AS SELECT 'a' || 'b' AS x", "SET sql_mode = ''", "ALTER TABLE t ADD COLUMN z DATE NOT NULL DEFAULT '0000-00-00'"}},
	"a default collation, MySQL": {on: mysqld.MySQL, after: []string{
		"SET default_collation_for_utf8mb4 = utf8mb4_general_ci",
		"CREATE TABLE t (v VARCHAR(9) CHARACTER SET utf8mb4 PRIMARY KEY)",
		"@CREATE TABLE u (v VARCHAR(9) CHARACTER SET utf8mb4 PRIMARY KEY)"}},
	"a default collation, MariaDB": {on: mysqld.MariaDB, after: []string{
		"!SET character_set_collations = 'utf8mb4=utf8mb4_bin,latin1=latin1_german2_ci'",
		"CREATE TABLE t (v VARCHAR(9) CHARACTER SET utf8mb4 PRIMARY KEY, l VARCHAR(9) CHARACTER SET latin1)",
		"!INSERT INTO t (v) VALUES ('a')", "!INSERT INTO t (v) VALUES ('A')",
		"@CREATE TABLE u (v VARCHAR(9) CHARACTER SET utf8mb4 PRIMARY KEY)",
		"!SET character_set_collations = ''", "CREATE TABLE w (v VARCHAR(9) CHARACTER SET utf8mb4 PRIMARY KEY)",
		"!SET character_set_collations = 'utf8mb4=utf8mb4_bin'", "ALTER TABLE w CONVERT TO CHARACTER SET utf8mb4"}},
	"a connection of wide characters": {after: []string{"!SET character_set_collations = 'utf8mb4=utf8mb4_bin'", "SET time_zone = '+08:00'",
		"SET collation_connection = utf32_general_ci", "CREATE TABLE t (v VARCHAR(9) CHARACTER SET utf8mb4 PRIMARY KEY)",
		"CREATE TABLE u (at TIMESTAMP DEFAULT '2024-01-01 09:00:00')"}},
	"a collation of the database": {after: []string{"SET collation_database = latin1_swedish_ci", "CREATE TABLE t (v VARCHAR(9))",
		"CREATE PROCEDURE p (a VARCHAR(9)) SELECT a", "CREATE TABLE u (v VARCHAR(9)) CHARSET latin1"}},
	"TIMESTAMP without DEFAULT": {after: []string{"SET explicit_defaults_for_timestamp = 0", "CREATE TABLE t (a TIMESTAMP, b INT)",
		"@CREATE TABLE u (a TIMESTAMP, b INT)"}},
	"flags of MariaDB": {on: mysqld.MariaDB, before: []string{"CREATE TABLE t (v INT)", "INSERT INTO t VALUES (1)"},
		after: []string{"SET check_constraint_checks = 0", "ALTER TABLE t ADD CHECK (v > 5)", "SET check_constraint_checks = 1",
			"INSERT INTO t VALUES (6)", "SET sql_if_exists = 1", "DROP TABLE nothing", "CREATE TABLE u (a INT)"}},
	"loose settings of MySQL": {on: mysqld.MySQL, after: []string{"SET SESSION restrict_fk_on_non_standard_key = OFF",
		"CREATE TABLE p (id INT PRIMARY KEY, k INT, KEY (k))", "CREATE TABLE c (id INT PRIMARY KEY, k INT, FOREIGN KEY (k) REFERENCES p (k))",
		"SET foreign_key_checks = 0", "CREATE TABLE d (id INT PRIMARY KEY, k INT, FOREIGN KEY (k) REFERENCES missing (k))"}},
	"loose settings of MariaDB": {on: mysqld.MariaDB, after: []string{"SET innodb_strict_mode = 0",
		"CREATE TABLE t (id INT PRIMARY KEY) ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=32",
		"CREATE TABLE w (id INT PRIMARY KEY) WITH SYSTEM VERSIONING", "INSERT INTO w VALUES (1), (2)", "DELETE FROM w WHERE id = 1",
		"SET system_versioning_alter_history = 'KEEP'", "ALTER TABLE w ADD COLUMN x INT DEFAULT 4"}},
	"versions of rows": {on: mysqld.MariaDB, before: []string{"CREATE TABLE t (id INT PRIMARY KEY, v INT)",
		"INSERT INTO t VALUES (1, 1), (2, 2)"},
		after: []string{"ALTER TABLE t ADD SYSTEM VERSIONING", "UPDATE t SET v = 3 WHERE id = 1", "SET timestamp = 1700000000.5",
			"!DELETE FROM t WHERE id = 2", "CREATE TABLE u (id INT PRIMARY KEY) WITH SYSTEM VERSIONING AS SELECT id FROM t",
			"SET timestamp = DEFAULT", "DELETE HISTORY FROM t"}},
	"an ALTER TABLE in two phases": {on: mysqld.MariaDB, before: keyed, after: []string{"SET binlog_alter_two_phase = 1",
		"ALTER TABLE t ADD COLUMN n INT DEFAULT 4", "!ALTER TABLE t ADD UNIQUE (n)", "ALTER TABLE t DROP COLUMN n"}},
	"sequences": {on: mysqld.MariaDB, before: []string{"CREATE SEQUENCE s"}, after: []string{"SELECT NEXTVAL(s)", "CREATE SEQUENCE r START 5 INCREMENT 3 CACHE 2",
		"SELECT NEXTVAL(r)", "SELECT NEXTVAL(r)", "SELECT NEXTVAL(r)", "SELECT SETVAL(s, 5000)", "ALTER SEQUENCE r RESTART 100",
		"CREATE TABLE t (id INT DEFAULT (NEXTVAL(s)), v INT)", "INSERT INTO t (v) VALUES (1), (2)"}},
	"partitions of a selection": {before: []string{"CREATE TABLE s (id INT NOT NULL, v INT)", "INSERT INTO s VALUES (1, 1), (2, 2)"},
		after: []string{"CREATE TABLE b (PRIMARY KEY (id)) PARTITION BY HASH (id) PARTITIONS 2 AS SELECT * FROM s",
			"CREATE TABLE d (PRIMARY KEY (id)) COMMENT 'START TRANSACTION' AS SELECT * FROM s",
			"CREATE TABLE e (PRIMARY KEY (id)) COMMENT 'x' ROW_FORMAT=DYNAMIC STATS_PERSISTENT=1 PARTITION BY RANGE (id) " +
				"SUBPARTITION BY HASH (id) SUBPARTITIONS 2 (PARTITION p VALUES LESS THAN (2) COMMENT = 'START TRANSACTION', " +
				"PARTITION q VALUES LESS THAN MAXVALUE) AS SELECT * FROM s",
			"CREATE TABLE f (j INT AS (id + 1) STORED, CHECK (id > 0)) AS SELECT * FROM s", "INSERT INTO b VALUES (3, 3)",
			"CREATE PROCEDURE p () BEGIN START TRANSACTION; COMMIT; END"}},
	"a materialized view": {on: mysqld.MySQL, before: keyed, after: []string{"CREATE MATERIALIZED VIEW m AS SELECT v FROM t",
		"CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT d FROM t"}},
	"options of a selection, MySQL": {on: mysqld.MySQL, before: []string{"CREATE TABLE s (id INT NOT NULL, v INT)", "INSERT INTO s VALUES (1, 1), (2, 2)"},
		after: []string{"CREATE TABLE b (PRIMARY KEY (id)) SECONDARY_ENGINE_ATTRIBUTE='{}' AUTOEXTEND_SIZE=4M " +
			"AS SELECT * FROM s", "CREATE TABLE d (PRIMARY KEY (id)) SECONDARY_ENGINE_ATTRIBUTE='{}' PARTITION BY KEY () AS SELECT * FROM s"}},
	"another database": {before: keyed, after: []string{"DROP DATABASE $DB", "CREATE DATABASE $DB /* x */ CHARACTER SET latin1",
		"CREATE TABLE $DB.t (v VARCHAR(9), w VARCHAR(9) CHARACTER SET utf8mb4)", "DROP DATABASE $DB",
		"SET collation_server = latin1_german2_ci", "CREATE DATABASE $DB", "CREATE DATABASE IF NOT EXISTS $DB CHARACTER SET utf8mb4",
		"CREATE TABLE $DB.t (v VARCHAR(9))"}},
	"a replaced database": {on: mysqld.MariaDB, before: keyed, after: []string{"CREATE OR REPLACE SCHEMA `$DB` COLLATE latin1_bin",
		"CREATE TABLE $DB.t (v VARCHAR(9))", "ALTER DATABASE $DB COMMENT 'x'", "CREATE TABLE $DB.u (v VARCHAR(9))"}},
	"selections": {before: keyed, after: []string{"CREATE TABLE a AS SELECT *, RAND() AS r, CONNECTION_ID() AS c FROM t",
		"CREATE TABLE b LIKE t", "INSERT INTO b SELECT * FROM t ORDER BY RAND()", "CREATE TEMPORARY TABLE x (a INT)",
		"INSERT INTO x VALUES (1)", "CREATE TABLE c AS SELECT * FROM x", "DROP TABLE x",
		"CREATE TABLE IF NOT EXISTS c AS SELECT 5 AS a", "DROP TEMPORARY TABLE IF EXISTS y", "TRUNCATE a", "RENAME TABLE b TO bb, c TO b"}},
	"settings of a procedure": {after: []string{"SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT'", "CREATE PROCEDURE p () BEGIN " +
		"SET time_zone = '+05:00', sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_ZERO_DATE,REAL_AS_FLOAT', collation_connection = utf8mb4_bin; " +
		"CREATE TABLE t (at TIMESTAMP DEFAULT '2024-02-03 04:05:06', v VARCHAR(9) DEFAULT ('a' || 'ä')); CREATE VIEW \"v\" AS " +
		"SELECT 'a' || 'ä' COLLATE utf8mb4_bin AS x; END", // MySQL records how it has read the text, until it reads that again
		"CALL p()", "SET sql_mode = ''", "CREATE VIEW u AS SELECT 'a' || 'b' AS x"}},

	"a failure after a drop": {on: mysqld.MariaDB, before: []string{"CREATE TABLE t (a INT)"},
		after: []string{"!CREATE OR REPLACE TABLE t (a INT, a INT)", "CREATE TABLE u (a INT)"}},
	"a failure that is another one": {on: mysqld.MariaDB, before: []string{"CREATE TABLE t (a INT)"}, after: []string{
		"!EXECUTE IMMEDIATE 'CREATE OR REPLACE TABLE t (a INT DEFAULT ?)' USING DEFAULT"}, refused: "the table `t` that failed"},

	// What the log does not say.
	"a name that is none in its character set": {on: mysqld.MySQL, after: []string{"SET NAMES gb18030",
		"CREATE TABLE `\xef\xbf\xbdj\xe0\xbb\x819\xef\xbf\xbd0_2` (a INT)"}, refused: "gb18030"},
	"a character set of a procedure": {after: []string{"CREATE PROCEDURE p () BEGIN SET NAMES latin1; CREATE TABLE t (v VARCHAR(9) " +
		"CHARACTER SET utf8mb4 DEFAULT 'é'); END", "CALL p()"}, refused: "the procedure `p`, which may have set sql_mode or a character set before: CREATE TABLE t"},
	"a character set of the strings of a procedure": {on: mysqld.MySQL, after: []string{"CREATE PROCEDURE p () BEGIN " +
		"SET collation_connection = ucs2_bin; CREATE TABLE t (v INT PRIMARY KEY, h VARCHAR(9) AS (HEX('x'))); END", "CALL p()"}, refused: "CREATE TABLE t"},
	"a type in a mode of a procedure": {after: []string{"CREATE PROCEDURE p () BEGIN SET sql_mode = 'REAL_AS_FLOAT'; CREATE TABLE t (r REAL); END",
		"CALL p()"}, refused: "CREATE TABLE t"},
	"a view in a mode of a procedure": {after: []string{"CREATE PROCEDURE p () BEGIN SET sql_mode = 'PIPES_AS_CONCAT'; " +
		"CREATE VIEW v AS SELECT 'a' || 'b' AS x; END", "CALL p()"}, refused: "VIEW `v` AS SELECT"},
	"escapes in a mode of a procedure": {after: []string{"CREATE PROCEDURE p () BEGIN SET sql_mode = 'NO_BACKSLASH_ESCAPES'; " +
		"CREATE TABLE $DB.t (v VARCHAR(9) DEFAULT 'a\\\\b'); END", "CALL p()"}, refused: "sql_mode"},
	"a selection in a mode without options": {before: []string{"CREATE TABLE s (v VARCHAR(9))"}, after: []string{"SET sql_mode = 'ANSI'",
		"CREATE TABLE t (w VARCHAR(9)) DEFAULT CHARSET=latin1 COMMENT='x' AS SELECT * FROM s"}, refused: "the table `t`"},
	"a selection in a mode without attributes": {on: mysqld.MariaDB, after: []string{"SET sql_mode = 'NO_FIELD_OPTIONS'",
		"CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY) AS SELECT 1 AS n"}, refused: "the table `t`"},
	"a selection in a mode without escapes": {before: []string{"CREATE TABLE s (v VARCHAR(9) DEFAULT 'a\\\\b')"},
		after: []string{"SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "CREATE TABLE t AS SELECT * FROM s"}, refused: "NO_BACKSLASH_ESCAPES"},
	"a selection with rare characters": {before: []string{"CREATE TABLE s (e ENUM('😀', 'b'))"}, after: []string{
		"CREATE TABLE t AS SELECT * FROM s"}, refused: "question mark"},
	"a renamed temporary table": {on: mysqld.MariaDB, after: []string{"CREATE TEMPORARY TABLE x (a INT)", "RENAME TABLE x TO y"}},
	"renamed tables, of which one is temporary": {on: mysqld.MariaDB, before: keyed, after: []string{"CREATE TEMPORARY TABLE x (a INT)",
		"RENAME TABLE t TO u, x TO y"}, refused: "renames temporary tables"},
	"a copy of a temporary table for latin1": {after: []string{"CREATE TEMPORARY TABLE x (v VARCHAR(9) DEFAULT 'é')", "SET NAMES latin1",
		"CREATE TABLE t LIKE x"}, refused: "in UTF-8 or in latin1"},
	"a copy of a temporary table": {after: []string{"CREATE TEMPORARY TABLE x (v VARCHAR(9)) CHARSET latin1", "CREATE TABLE t LIKE x"},
		refused: "the table `t` like a temporary one"},
	"what looks like a copy of a temporary table": {after: []string{"CREATE TABLE `t` (\n  `v` varchar(9)\n) ENGINE=InnoDB",
		"CREATE TABLE `u` (\n  `v` varchar(9) DEFAULT '?'\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4", "SET NAMES latin1",
		"CREATE TABLE `y` (\n  `v` varchar(9) DEFAULT '\xe9 ' COMMENT 'why?'\n)"}},
	"a comment of a selection": {before: []string{"CREATE TABLE s (v VARCHAR(9) DEFAULT 'é' COMMENT 'why?')"},
		after: []string{"CREATE TABLE t COMMENT = 'x?' AS SELECT * FROM s"}},
	"a list of what is there and what not": {before: []string{"CREATE TABLE a (id INT)", "CREATE TABLE b (id INT)", "CREATE VIEW v AS SELECT 1"},
		after: []string{"!DROP TABLE missing, a", "!DROP TABLE b, missing", "!DROP VIEW missing, v"}},
	"a view in a mode of an event that is gone": {after: []string{"CREATE EVENT e ON SCHEDULE AT '2037-01-01 00:00:00' DO BEGIN " +
		"SET sql_mode = 'PIPES_AS_CONCAT'; CREATE VIEW v AS SELECT 'a' || 'b' AS x; END", "DROP EVENT e", "SET sql_mode = 'PIPES_AS_CONCAT'",
		"CREATE VIEW v AS SELECT 'a' || 'b' AS x"}, refused: "the event `e`"},
	"random defaults": {on: mysqld.MariaDB, before: keyed, after: []string{
		"ALTER TABLE t ADD COLUMN u VARCHAR(36) DEFAULT (UUID()), ADD COLUMN r DOUBLE DEFAULT (RAND())"}, refused: "`t`"},
	"a random default without parentheses": {on: mysqld.MariaDB, before: keyed, after: []string{
		"ALTER TABLE t ADD u VARCHAR(36) DEFAULT uuid()"}, refused: "UUID()"},
	"a random default in a comment": {on: mysqld.MariaDB, before: keyed, after: []string{
		"/* x */ ALTER /*!50000 TABLE */ `t` ADD (c INT DEFAULT 5, u DOUBLE DEFAULT (1 + rand()))"}, refused: "RAND()"},
	"the connection": {on: mysqld.MariaDB, before: keyed, after: []string{"ALTER TABLE $DB.t ADD u INT DEFAULT (CONNECTION_ID())"},
		refused: "CONNECTION_ID()"},
	"the user":     {on: mysqld.MariaDB, before: keyed, after: []string{"ALTER TABLE t ADD u TEXT DEFAULT (CURRENT_USER)"}, refused: "CURRENT_USER"},
	"the database": {before: keyed, after: []string{"ALTER TABLE t ADD u VARCHAR(80) DEFAULT (DATABASE())"}, refused: "DATABASE()"},
	"the clock":    {on: mysqld.MariaDB, before: keyed, after: []string{"ALTER TABLE t ADD u DATETIME(6) DEFAULT (SYSDATE(6))"}, refused: "SYSDATE"},
	"a setting":    {on: mysqld.MariaDB, before: keyed, after: []string{"ALTER TABLE t ADD u TEXT DEFAULT (@@wait_timeout)"}, refused: "@"},
	"a week": {on: mysqld.MySQL, before: keyed, after: []string{"SET default_week_format = 3", "ALTER TABLE t ADD u INT AS (WEEK(d)) STORED"},
		refused: "WEEK()"},
	"a division": {before: keyed, after: []string{"SET div_precision_increment = 9", "ALTER TABLE t ADD u DECIMAL(30,20) AS (v / 3) STORED"},
		refused: "/"},
	"a virtual column": {before: keyed, after: []string{"ALTER TABLE t ADD u DECIMAL(30,20) AS (v / 3) VIRTUAL"}},
	"a sequence as default": {on: mysqld.MariaDB, before: append([]string{"CREATE SEQUENCE s"}, keyed...), after: []string{
		"ALTER TABLE t ADD u INT DEFAULT (NEXT VALUE FOR s)"}, refused: "NEXT"},
	"numbers of rows without a key": {before: keyless, after: []string{"ALTER TABLE t ADD n INT AUTO_INCREMENT PRIMARY KEY"},
		refused: "no primary key"},
	"numbers of rows with a key": {before: keyed, after: []string{"ALTER TABLE t ADD n INT AUTO_INCREMENT UNIQUE"}},
	"numbers of one row": {before: []string{"CREATE TABLE t (v INT)", "INSERT INTO t VALUES (1)"}, after: []string{
		"ALTER TABLE t ADD n INT AUTO_INCREMENT PRIMARY KEY"}},
	"the first of equal rows": {on: mysqld.MariaDB, before: []string{"CREATE TABLE t (v INT, w INT)", "INSERT INTO t VALUES (1, 1), (1, 2)"},
		after: []string{"ALTER IGNORE TABLE t ADD UNIQUE (v)"}, refused: "no primary key"},
	"the first of equal rows with a key": {on: mysqld.MariaDB, before: []string{"CREATE TABLE t (v INT, w INT PRIMARY KEY)",
		"INSERT INTO t VALUES (1, 2), (1, 1)"}, after: []string{"ALTER IGNORE TABLE t ADD UNIQUE (v)"}},
	"a random default of no rows": {on: mysqld.MariaDB, before: []string{"CREATE TABLE t (v INT PRIMARY KEY)"}, after: []string{
		"ALTER TABLE t ADD u VARCHAR(36) DEFAULT (UUID())", "INSERT INTO t (v) VALUES (1), (2)"}},
	"geometries": {before: keyed, after: []string{"ALTER TABLE t ADD p POINT DEFAULT (POINT(1, 2)), ADD g GEOMETRY DEFAULT " +
		"(GEOMETRYCOLLECTION(LINESTRING(POINT(0, 0), POINT(1, 1)), MULTIPOINT(POINT(1, 2), POINT(2, 3))))"}},
	"conversions of times": {before: keyed, after: []string{"SET time_zone = '+08:00'", "ALTER TABLE t MODIFY at DATETIME",
		"@SET time_zone = '-03:00'", "@ALTER TABLE t MODIFY d TIMESTAMP NULL", "@ALTER TABLE t ADD COLUMN s VARCHAR(30) DEFAULT (CONCAT(d))"}},
	"dates of times": {on: mysqld.MySQL, before: []string{"CREATE TABLE t (id INT PRIMARY KEY, a TIME)", "INSERT INTO t VALUES (1, '10:00')"},
		after: []string{"SET time_zone = '+08:00', timestamp = 1704225600", "ALTER TABLE t MODIFY a DATE"}, refused: "a time becomes a date"},
	"a date beside a time": {before: []string{"CREATE TABLE t (id INT PRIMARY KEY, date DATE, at TIME, `change` INT)",
		"INSERT INTO t VALUES (1, '2024-01-02', '10:00', 5)"}, after: []string{"ALTER TABLE t MODIFY date DATE NOT NULL",
		"ALTER TABLE t CHANGE `change` at_all INT, MODIFY COLUMN at TIME(3), ADD change_date DATE"}},
	"dates of renamed times": {on: mysqld.MySQL, before: []string{"CREATE TABLE t (id INT PRIMARY KEY, `ä` TIME)",
		"INSERT INTO t VALUES (1, '10:00')"}, after: []string{"SET NAMES latin1, time_zone = '+08:00', timestamp = 1704225600",
		"ALTER TABLE t CHANGE COLUMN `\xc4` b DATE"}, refused: "a time becomes a date"},
	"times on days": {after: []string{"CREATE TABLE t (id INT PRIMARY KEY, day DATE, at TIME, " +
		"starts DATETIME AS (TIMESTAMP(day, at)) STORED, v VARCHAR(40) AS (CONCAT(YEAR(day), ' ', at)) STORED, " +
		"w DATETIME AS (day + INTERVAL TIME_TO_SEC(at) SECOND) STORED, x DATETIME AS (IF(at IS NULL, day, TIMESTAMP(day, at))) STORED, " +
		"y DATETIME AS (TIMESTAMP(day, COALESCE(at, MAKETIME(1, 0, 0)))) STORED, " +
		"m INT AS (TIMESTAMPDIFF(MINUTE, at, at)) STORED)", "SET time_zone = '+08:00', timestamp = 1704225600",
		"INSERT INTO t (id, day, at) VALUES (1, '2024-05-06', '10:00'), (2, '2024-05-06', NULL)", "UPDATE t SET day = '2024-05-07', at = '11:00'"}},
	"stored dates of times behind a text": {on: mysqld.MySQL, after: []string{"CREATE TABLE t (id INT PRIMARY KEY, a TIME, " +
		"b VARCHAR(99) AS (CONCAT('x''y\\\\', DATE(a))) STORED)", "SET time_zone = '+08:00', timestamp = 1704225600",
		"INSERT INTO t (id, a) VALUES (1, '10:00')"}, refused: "a stored column that depends on the time zone"},
	"stored timestamps of an unknown zone": {on: "mariadb-11", after: []string{"CREATE TABLE t (id INT PRIMARY KEY, d DATETIME, " +
		"at TIMESTAMP AS (d) STORED)", "SET time_zone = '+08:00'", "INSERT INTO t (id, d) VALUES (1, '2024-01-02 03:04:05')"},
		refused: "a stored column that depends on the time zone"},
	"stored dates of times": {on: mysqld.MySQL, after: storedDates, refused: "a stored column that depends on the time zone"},
	"stored dates of times that are computed again": {on: "mariadb-11", after: storedDates,
		refused: "a stored column that depends on the time zone"},
	"stored dates of times in the log": {on: "mariadb-10", after: storedDates},
	"hours of times": {after: []string{"CREATE TABLE t (a TIME, h INT AS (HOUR(a)) STORED)", "SET time_zone = '+08:00'",
		"INSERT INTO t (a) VALUES ('10:00')"}},
	"a subtraction that fails": {on: "mariadb-11", after: []string{"SET sql_mode = 'NO_UNSIGNED_SUBTRACTION'",
		"CREATE TABLE t (u INT UNSIGNED, s BIGINT AS (u - 5) VIRTUAL, KEY (u))", "INSERT INTO t (u) VALUES (3)"}, refused: "a generated column or a check fails"},
	"empty texts that are NULL": {on: mysqld.MariaDB, after: []string{"SET sql_mode = 'EMPTY_STRING_IS_NULL'",
		"CREATE TABLE t (v VARCHAR(9) DEFAULT 'x')", "CREATE VIEW w AS SELECT '' AS e"}},
	"subpartitions for all other values": {after: []string{"CREATE TABLE t (a INT, b INT) PARTITION BY RANGE (a) SUBPARTITION BY " +
		"HASH (b) (PARTITION p VALUES LESS THAN (5) (SUBPARTITION q), PARTITION r VALUES LESS THAN MAXVALUE (SUBPARTITION s))"}},
	"a random schedule":        {after: []string{"CREATE EVENT e ON SCHEDULE EVERY (RAND() * 10 + 1) HOUR DO SELECT 1"}, refused: "random"},
	"a variable of a schedule": {after: []string{"SET @a = 5", "CREATE EVENT e ON SCHEDULE EVERY @a HOUR DO SELECT 1"}, refused: "variable"},
	"a setting of a schedule":  {after: []string{"CREATE EVENT e ON SCHEDULE EVERY @@div_precision_increment HOUR DO SELECT 1"}, refused: "`e`"},
	"a schedule": {after: []string{"SET time_zone = '+03:00'",
		"CREATE EVENT e ON SCHEDULE EVERY 2 WEEK STARTS CURRENT_TIMESTAMP + INTERVAL 1 DAY ENDS '2030-01-01 00:00:00' COMMENT 'RAND()' DO SELECT RAND()",
		"CREATE EVENT f ON SCHEDULE AT '2031-01-01 00:00:00' + INTERVAL (5 + 5) MINUTE DO SELECT @@version", "ALTER EVENT e RENAME TO g",
		"ALTER EVENT f DISABLE"}},
}

const (
	parent = "CREATE TABLE p (id INT PRIMARY KEY, v INT UNIQUE, up INT, FOREIGN KEY (up) REFERENCES p (id) ON DELETE CASCADE)"
	child  = "CREATE TABLE c (id INT PRIMARY KEY, p INT, w INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE %s ON UPDATE %s)"
)

// TestForeignKeys has foreign keys change rows in many ways.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	actions := []string{"CASCADE", "SET NULL", "RESTRICT"}
	for _, onDelete := range actions {
		for _, onUpdate := range actions {
			t.Run(onDelete+" "+onUpdate, func(t *testing.T) {
				t.Parallel()
				h := history{before: []string{parent, fmt.Sprintf(child, onDelete, onUpdate),
					"CREATE TABLE d (id INT PRIMARY KEY, c INT, FOREIGN KEY (c) REFERENCES c (id) ON DELETE CASCADE ON UPDATE CASCADE)",
					"CREATE TABLE log (id INT AUTO_INCREMENT PRIMARY KEY, what TEXT)",
					"CREATE TRIGGER tp AFTER DELETE ON p FOR EACH ROW INSERT INTO log (what) VALUES (CONCAT('p', OLD.id))",
					"CREATE TRIGGER tc AFTER DELETE ON c FOR EACH ROW INSERT INTO log (what) VALUES (CONCAT('c', OLD.id))"}}
				for n := 1; n <= 24; n++ {
					h.before = append(h.before, fmt.Sprintf("INSERT INTO p VALUES (%d, %d, %s)", n, 100+n,
						[]string{"NULL", strconv.Itoa(n - 1)}[n%2*(n/13)]), fmt.Sprintf("INSERT INTO c VALUES (%d, %d, 0), (%d, %d, 0)",
						10*n, n, 10*n+1, n), fmt.Sprintf("INSERT INTO d VALUES (%d, %d)", n, 10*n))
				}
				for _, statement := range []string{"REPLACE INTO p VALUES (3, 55, NULL)", "REPLACE INTO p VALUES (4, 105, NULL)",
					"REPLACE INTO p VALUES (77, 106, NULL)", "INSERT INTO p VALUES (7, 7, NULL) ON DUPLICATE KEY UPDATE id = 70, v = 70",
					"INSERT INTO p VALUES (71, 108, NULL) ON DUPLICATE KEY UPDATE id = 71", "UPDATE p SET id = id + 1000 WHERE id = 9",
					"DELETE FROM p WHERE id = 10", "DELETE p, c FROM p JOIN c ON c.p = p.id WHERE p.id = 11",
					"UPDATE p, c SET p.v = 900, c.w = 5 WHERE p.id = 12 AND c.p = 12",
					"UPDATE p JOIN c ON c.p = p.id SET p.id = 913, c.w = 6 WHERE p.id = 13", "DELETE FROM p WHERE id = 14",
					"DELETE c, p FROM c JOIN p ON c.p = p.id WHERE p.id BETWEEN 15 AND 16", "REPLACE INTO c VALUES (170, 18, 5)",
					"INSERT INTO c VALUES (180, 1, 1) ON DUPLICATE KEY UPDATE id = 1800", "DELETE IGNORE FROM p WHERE id IN (19, 20)",
					"UPDATE IGNORE p SET id = 21 WHERE id = 22", "SET foreign_key_checks = 0", "DELETE FROM p WHERE id = 23",
					"UPDATE p SET id = 240 WHERE id = 24", "REPLACE INTO p VALUES (21, 121, NULL)", "SET foreign_key_checks = 1",
					"DELETE FROM c WHERE id = 240", "BEGIN", "DELETE FROM p WHERE id = 1", "INSERT INTO p VALUES (1, 1, NULL)",
					"UPDATE p SET id = 2000 WHERE id = 2", "ROLLBACK", "BEGIN", "SAVEPOINT s", "DELETE FROM p WHERE id = 1",
					"ROLLBACK TO s", "UPDATE p SET id = 2000 WHERE id = 2", "COMMIT", "INSERT INTO d SELECT id + 5000, id FROM c",
					"UPDATE c SET id = id + 100000"} {
					h.after = append(h.after, "!"+statement)
				}
				eachServer(t, "", h.expect)
			})
		}
	}
}
