package binlog

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRenamed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		mode       uint64
		text, want string
	}{
		{0, "CREATE TABLE t (a INT)", "CREATE TABLE t (a INT)"},
		{0, "CREATE TABLE db_a.t LIKE db_a . u", "CREATE TABLE db_b.t LIKE db_b . u"},
		{0, "CREATE TABLE `db_a`.`t` LIKE db_a/* of db_a.t */.u", "CREATE TABLE `db_b`.`t` LIKE db_b/* of db_a.t */.u"},
		{0, "DROP TABLE `db_a`.`unfinished db_a` -- `db_a`.t", "DROP TABLE `db_b`.`unfinished db_a` -- `db_a`.t"},
		{0, "DROP TABLE /*!50000 db_a.*/t, xdb_a.t, `db_a.t`", "DROP TABLE /*!50000 db_b.*/t, xdb_a.t, `db_a.t`"},

		{0, "CREATE TABLE db_a.t (a INT DEFAULT '`db_a`.`t`')", "CREATE TABLE db_b.t (a INT DEFAULT '`db_a`.`t`')"},
		{0, "CREATE TABLE t (a INT) COMMENT '\\' db_a.t `db_a`'", "CREATE TABLE t (a INT) COMMENT '\\' db_a.t `db_a`'"},
		{0, `CREATE VIEW v AS SELECT "db_a.t", "db_a"."x"`, `CREATE VIEW v AS SELECT "db_a.t", "db_a"."x"`},
		{ansiQuotes, `CREATE VIEW v AS SELECT "db_a"."t"."x", 'db_a.t'`, `CREATE VIEW v AS SELECT "db_b"."t"."x", 'db_a.t'`},
		{0, `CREATE VIEW v AS SELECT '\' FROM db_a.t`, `CREATE VIEW v AS SELECT '\' FROM db_a.t`},
		{noBackslashEscapes, `CREATE VIEW v AS SELECT '\' FROM db_a.t`, `CREATE VIEW v AS SELECT '\' FROM db_b.t`},

		{0, "CREATE TABLE db_a (db_a INT)", "CREATE TABLE db_a (db_a INT)"},
		{0, "ALTER TABLE db_a.db_a RENAME `db_a`", "ALTER TABLE db_b.db_a RENAME `db_a`"},
		{0, "CREATE VIEW v AS SELECT db_a.db_a.db_a FROM db_a", "CREATE VIEW v AS SELECT db_b.db_a.db_a FROM db_a"},
		{0, "CREATE PROCEDURE p() SET @db_a.x = 1", "CREATE PROCEDURE p() SET @db_a.x = 1"},

		{0, "ALTER DATABASE db_a COLLATE utf8mb4_bin", "ALTER DATABASE db_b COLLATE utf8mb4_bin"},
		{0, "drop schema if exists `db_a`", "drop schema if exists `db_b`"},
		{0, "CREATE DATABASE IF NOT EXISTS db_a", "CREATE DATABASE IF NOT EXISTS db_b"},
		{0, "CREATE TRIGGER x AFTER INSERT ON db_a.t FOR EACH ROW INSERT INTO db_a.u VALUES (1)",
			"CREATE TRIGGER x AFTER INSERT ON db_b.t FOR EACH ROW INSERT INTO db_b.u VALUES (1)"},
	} {
		assert.Equal(t, test.want, renamed(test.text, tokens(test.text, test.mode, utf8mb4), "db_a", "db_b"), test.text)
	}
	const sjis = 13
	for text, want := range map[string]string{
		"DROP TABLE \x83\x60, db_a.t":                     "DROP TABLE \x83\x60, db_b.t",
		"CREATE VIEW v SELECT '\x83\x5c.', db_a.t FROM t": "CREATE VIEW v SELECT '\x83\x5c.', db_b.t FROM t",
		"CREATE VIEW v SELECT '\xb1' FROM db_a.t, `\xb1`": "CREATE VIEW v SELECT '\xb1' FROM db_b.t, `\xb1`",
		"CREATE VIEW v SELECT '\x83' FROM db_a.t":         "CREATE VIEW v SELECT '\x83' FROM db_b.t",
	} {
		assert.Equal(t, want, renamed(text, tokens(text, 0, sjis), "db_a", "db_b"), "%q", text)
	}
}

func TestCommentsBefore(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"--\nDROP TABLE a\n, b":             "DROP TABLE a\n, b",
		"-- x\n--\n\n# x\nDROP TABLE a\n":   "DROP TABLE a\n",
		"/**/ DROP TABLE a /* x */, b":      "DROP TABLE a /* x */, b",
		"/***//* x */DROP TABLE a":          "DROP TABLE a",
		"/*M*//*My*//*\n*/DROP TABLE a -- ": "DROP TABLE a -- ",
		"/*!50000 DROP*/ TABLE a":           "/*!50000 DROP*/ TABLE a",
		"/*M!100100 DROP*/ TABLE a":         "/*M!100100 DROP*/ TABLE a",
	} {
		assert.Equal(t, want, comments.ReplaceAllString(text, ""), text)
	}
}

// TestStatements checks which database a statement changes, and that the account that runs it becomes the definer.
func TestStatements(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"CREATE USER u":                                      true,
		"create or replace user u":                           true,
		"GRANT ALL ON `db\\_a`.* TO u":                       true,
		"ALTER USER u ACCOUNT LOCK":                          true,
		"SET PASSWORD FOR u = 'x'":                           true,
		"FLUSH BINARY LOGS":                                  true,
		"CREATE TABLE users (a INT)":                         false,
		"CREATE TABLE grants (a INT)":                        false,
		"SET STATEMENT lock_wait_timeout=1 FOR DROP TABLE t": false,
		"DROP TABLE user":                                    false,
	} {
		assert.Equal(t, want, ofServer.MatchString(text), "%s: of the server", text)
	}
	for text, want := range map[string]string{
		"CREATE DEFINER=`a`@`%` PROCEDURE p() SELECT 'DEFINER=`b`@`%` '": "CREATE PROCEDURE p() SELECT 'DEFINER=`b`@`%` '",
		"CREATE ALGORITHM=UNDEFINED DEFINER=`a``b`@`%` SQL SECURITY DEFINER VIEW `v` AS SELECT 1": "CREATE " +
			"ALGORITHM=UNDEFINED SQL SECURITY DEFINER VIEW `v` AS SELECT 1",
		"CREATE OR REPLACE DEFINER = a@'%' TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET @a = 1": "CREATE OR REPLACE " +
			"TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET @a = 1",
		"ALTER DEFINER=`a`@`%` EVENT e DISABLE": "ALTER EVENT e DISABLE",
		"CREATE TABLE t (a INT)":                "CREATE TABLE t (a INT)",
	} {
		assert.Equal(t, want, definer.ReplaceAllString(text, "$1"), text)
	}
	for text, want := range map[string]string{
		"CREATE VIEW `a b` AS SELECT 1":                          "VIEW `a b`",
		"CREATE SQL SECURITY DEFINER VIEW v AS SELECT 1":         "VIEW v",
		"CREATE PROCEDURE IF NOT EXISTS `d`.`p`() SELECT 1":      "PROCEDURE `d`.`p`",
		"CREATE EVENT e ON SCHEDULE EVERY 1 HOUR DO SELECT 1":    "EVENT e",
		"CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1": "FUNCTION f",
	} {
		p := program.FindStringSubmatch(text)
		assert.True(t, p != nil && p[1]+" "+p[2] == want, "%s: %q", text, p)
	}
}
