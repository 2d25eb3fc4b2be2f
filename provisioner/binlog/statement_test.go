package binlog

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRenamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"CREATE TABLE t (a INT)":                  "CREATE TABLE t (a INT)",
		"CREATE TABLE db_a.t LIKE db_a . u":       "CREATE TABLE db_b.t LIKE db_b . u",
		"CREATE TABLE `db_a`.`t` (a INT)":         "CREATE TABLE `db_b`.`t` (a INT)",
		`CREATE VIEW v AS SELECT "db_a"."t"."x"`:  `CREATE VIEW v AS SELECT "db_b"."t"."x"`,
		"CREATE TABLE t (a INT) COMMENT 'db_a.t'": "CREATE TABLE t (a INT) COMMENT 'db_a.t'",
		"DROP TABLE `db_a`.`unfinished db_a`":     "DROP TABLE `db_b`.`unfinished db_a`",
		"CREATE TABLE xdb_a.t (a INT)":            "CREATE TABLE xdb_a.t (a INT)",
		"ALTER DATABASE db_a COLLATE utf8mb4_bin": "ALTER DATABASE db_b COLLATE utf8mb4_bin",
		"drop schema if exists db_a":              "drop schema if exists db_b",
		"CREATE TRIGGER x AFTER INSERT ON db_a.t FOR EACH ROW INSERT INTO db_a.u VALUES (1)": "CREATE TRIGGER x AFTER " +
			"INSERT ON db_b.t FOR EACH ROW INSERT INTO db_b.u VALUES (1)",
	} {
		assert.Equal(t, want, renamed(text, "db_a", "db_b"), text)
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
