package transfer_test

import "github.com/stretchr/testify/assert"

// odd has what sessions with unusual settings make, and names that are equal in the collation of names.
var odd = []string{
	"CREATE TABLE same (id INT PRIMARY KEY)", "CREATE TABLE Same (id INT PRIMARY KEY)", "CREATE TABLE SAME (id INT PRIMARY KEY)",
	"CREATE TABLE sáme (id INT PRIMARY KEY)", "CREATE TABLE samé (id INT PRIMARY KEY)", "CREATE TABLE SaMe (id INT PRIMARY KEY)",
	"INSERT INTO same VALUES (1)", "INSERT INTO Same VALUES (2)", "INSERT INTO SAME VALUES (3)",
	"INSERT INTO sáme VALUES (4)", "INSERT INTO samé VALUES (5)", "INSERT INTO SaMe VALUES (6)",
	"CREATE TABLE binary_default (id INT PRIMARY KEY, b VARBINARY(5) DEFAULT x'00ff5c27')",
	"INSERT INTO binary_default (id) VALUES (1)",
	"CREATE TABLE computed (v INT AS (1 + 1))", "CREATE TABLE computed_too (v INT AS (1 + 1) STORED, w INT AS (v))",
	"INSERT INTO computed () VALUES (), (), ()", "INSERT INTO computed_too () VALUES (), (), ()",
	"CREATE TABLE emoji (id INT PRIMARY KEY, s VARCHAR(9) CHARACTER SET utf8mb4 DEFAULT '😀?', q VARCHAR(9) DEFAULT '?', " +
		"e ENUM('?', '😀', 'it''s ?') CHARACTER SET utf8mb4 NOT NULL DEFAULT '😀', m SET('x', '😀') CHARACTER SET utf8mb4 NOT NULL, " +
		"b ENUM(0xC840, 'x') CHARACTER SET big5, d VARCHAR(9) CHARACTER SET big5 DEFAULT 0xC840) " +
		"PARTITION BY KEY (id)",
	"INSERT INTO emoji (id, m, b) VALUES (1, '😀', 1)", "INSERT INTO emoji (id, e, m, b) VALUES (2, 1, 2, 1), (3, 3, 3, 1)",
	"CREATE TABLE commented (id INT AUTO_INCREMENT PRIMARY KEY COMMENT 'x AUTO_INCREMENT=99', v INT)",
	"INSERT INTO commented (v) VALUES (1)",
	"SET timestamp = 1000000000",
	"CREATE EVENT gone ON SCHEDULE AT '2002-01-01 00:00:00' DISABLE DO DELETE FROM same",
	"CREATE EVENT ended ON SCHEDULE EVERY 1 DAY STARTS '2001-10-01' ENDS '2002-01-01 00:00:00' DISABLE DO DELETE FROM same",
	"SET timestamp = DEFAULT",
	"SET sql_mode = 'HIGH_NOT_PRECEDENCE'",
	"CREATE EVENT negated ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01' DISABLE COMMENT ' ON COMPLETION NOT PRESERVE' DO SELECT NOT 1 = 0",
	"SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
	`CREATE PROCEDURE slashes() COMMENT 'it''s \ and \n' SELECT '\'`,
	`CREATE FUNCTION slash() RETURNS VARCHAR(9) DETERMINISTIC COMMENT '\' RETURN '\'`,
	`CREATE FUNCTION one_of(a ENUM('(\','x'), b ENUM("(\", 'y')) RETURNS ENUM('\','\n','''') DETERMINISTIC RETURN '\'`,
	`CREATE EVENT slash ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01' COMMENT 'it''s \' DO SET @a = '\'`,
	"SET sql_mode = '', character_set_client = latin1, collation_connection = latin1_german2_ci",
	"CREATE TABLE `t\xfc` (s VARCHAR(9))",
	"CREATE PROCEDURE `p\xfc`(`a\xfc` INT) COMMENT 'it''s gr\xf6\xdfe' SELECT 'gr\xf6\xdfe'",
	"CREATE FUNCTION `f\xfc`() RETURNS VARCHAR(9) DETERMINISTIC COMMENT 'gr\xf6\xdfe' RETURN 'gr\xf6\xdfe'",
	"CREATE TRIGGER `r\xfc` BEFORE INSERT ON `t\xfc` FOR EACH ROW SET @a = '\xfc'",
	"CREATE EVENT `e\xfc` ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01' COMMENT 'gr\xf6\xdfe' DO SET @a = 'gr\xf6\xdfe'",
	"CREATE TABLE latin (id INT PRIMARY KEY, s VARCHAR(9), CHECK (s <> 'gr\xf6\xdfe'))",
	"INSERT INTO latin VALUES (1, 'gr\xfcn')", "INSERT INTO `t\xfc` VALUES ('\xfc')",
	"SET collation_connection = ucs2_bin",
	"CREATE PROCEDURE from_ucs2() SELECT 'x'", "CREATE VIEW from_ucs2_too AS SELECT 'x' AS x",
	"SET NAMES utf8mb4",
}

var oddInMySQL = []string{
	"CREATE TABLE indexed (id INT PRIMARY KEY, s VARCHAR(20), KEY ((CAST(s AS DATE))))", "INSERT INTO indexed VALUES (1, 'no date')",
	"CREATE TABLE required (id INT PRIMARY KEY, v INT COMMENT 'DEFAULT', `at NOT NULL` TIMESTAMP NULL, b TEXT, n INT)",
	"ALTER TABLE required ALTER v DROP DEFAULT, ALTER `at NOT NULL` DROP DEFAULT", "INSERT INTO required VALUES (1, 1, NULL, 'x', 1)",
	"SET default_collation_for_utf8mb4 = utf8mb4_general_ci",
	"CREATE FUNCTION plain(`'a` VARCHAR(9) CHARACTER SET utf8mb4, b VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci) " +
		"RETURNS VARCHAR(99) CHARACTER SET utf8mb4 DETERMINISTIC RETURN CONCAT(COLLATION(`'a`), COLLATION(b))",
	"SET default_collation_for_utf8mb4 = DEFAULT, collation_database = cp1251_bin",
	"CREATE PROCEDURE of_database(a VARCHAR(9), b INT, OUT c TEXT) SELECT COLLATION(a), COLLATION(c)",
	"SET collation_database = DEFAULT",
	"CREATE FUNCTION half_plain(a VARCHAR(9) CHARACTER SET utf8mb4, b VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci) " +
		"RETURNS VARCHAR(99) CHARACTER SET utf8mb4 DETERMINISTIC RETURN CONCAT(COLLATION(a), COLLATION(b))",
	"CREATE LIBRARY tools COMMENT 'it''s' LANGUAGE JAVASCRIPT AS $$ export function one() { return 1 } $$",
}

var oddInMariaDB = []string{
	"ALTER DATABASE COMMENT 'it''s \\\\ \"ü\"'",
	"CREATE SEQUENCE twice MAXVALUE 2 NOCACHE CYCLE", "DO NEXTVAL(twice)", "DO NEXTVAL(twice)", "DO NEXTVAL(twice)",
	"CREATE TABLE mapped (id INT PRIMARY KEY, p POINT REF_SYSTEM_ID=101, `q``s` GEOMETRY REF_SYSTEM_ID=4326)",
	"INSERT INTO mapped VALUES (1, POINT(1, 2), NULL)",
	"SET check_constraint_checks = 0", "INSERT INTO articles (id) VALUES (-1)", "SET check_constraint_checks = 1",
	"CREATE VIEW counting AS SELECT NULLIF(LASTVAL(seq), LASTVAL(seq)) AS n, 'lastval(`DB`.`seq`)' AS text",
	"SET sql_mode = 'ORACLE'", "CREATE VIEW packed AS SELECT tools.one() AS n", "SET sql_mode = ''",
}

// compare compares everything in the two databases, and what programs and views return, which depends on the character
// set of their text.
func (f *fixture) compare() {
	f.t.Helper()
	f.expectCopied()
	calls := []string{"SELECT fü() AS f, slash() AS s, one_of(1, 1) AS m", "CALL pü(1)", "CALL slashes()", "CALL from_ucs2()",
		"SELECT * FROM a_first ORDER BY id", "SELECT * FROM from_ucs2_too"}
	if f.mariaDB {
		calls = append(calls, "SELECT * FROM counting", "SELECT * FROM packed")
	} else {
		calls = append(calls, "SELECT plain(1, 2), COLLATION(plain(1, 2)), half_plain(1, 2), COLLATION(half_plain(1, 2))")
	}
	for _, call := range calls {
		f.expectSame(call)
	}
	_, err := f.copied.ExecContext(f.t.Context(), "INSERT INTO latin VALUES (9, 'größe')")
	assert.Error(f.t, err, "a check of the copy does not hold")
	assert.Equal(f.t, []string{`f="größe" `}, f.all(f.copied, "SELECT fü() AS f"))
}
