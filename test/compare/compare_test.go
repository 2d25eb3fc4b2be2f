package compare_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/compare"
	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// base is what both databases have.
var base = []string{
	"CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, d DOUBLE, f FLOAT, s VARCHAR(9) CHARACTER SET latin1 DEFAULT 'x', " +
		"b VARBINARY(9), e ENUM('', 'a'), at TIMESTAMP(6) NULL, n INT, v INT AS (COALESCE(n, 0) + 1), KEY (n))",
	"INSERT INTO t (id, d, f, s, b, e, at, n) VALUES (1, 0.1, 0.1, 'e', x'ff', '', '2024-02-03 04:05:06.7', NULL)",
	"CREATE VIEW v AS SELECT id FROM t",
	"CREATE PROCEDURE p() SELECT 'é'",
	"CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1", "CREATE VIEW calls AS SELECT f() AS x",
	"CREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW SET NEW.n = 1",
	"SET NAMES swe7", "CREATE DEFINER=$ACCOUNT PROCEDURE swedish() SELECT 1", "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci",
	"CREATE EVENT e ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01' DISABLE DO DO 1",
	"CREATE TABLE child (id INT PRIMARY KEY, p INT, CONSTRAINT c FOREIGN KEY (p) REFERENCES t (id) ON DELETE CASCADE)",
}

var baseOf = map[string][]string{
	"mysql": {"CREATE TABLE j (id INT PRIMARY KEY, hidden INT INVISIBLE)", "INSERT INTO j (id, hidden) VALUES (1, 2)"},
	"mariadb": {"CREATE SEQUENCE q NOCACHE", "DO NEXTVAL(q)", "CREATE TABLE h (id INT PRIMARY KEY) WITH SYSTEM VERSIONING",
		"SET timestamp = 1600000000", "INSERT INTO h VALUES (1)", "SET timestamp = 1600000001", "DELETE FROM h",
		"SET timestamp = DEFAULT"},
}

// change is a statement, and one of the facts that it changes.
type change struct{ statement, object, aspect string }

// changes follow each other. Of each, other facts tell nothing, or less.
var changes = []change{
	{"UPDATE t SET d = 0.10000000000000002", "t", "rows"},
	{"UPDATE t SET f = 0.10000001", "t", "rows"},
	{"UPDATE t SET s = 'E'", "t", "rows"},
	{"UPDATE t SET b = x'ff00'", "t", "rows"},
	{"UPDATE t SET e = 0", "t", "rows"}, // whose text is that of another member
	{"UPDATE t SET at = at + INTERVAL 1 MICROSECOND", "t", "rows"},
	{"UPDATE t SET n = 0", "t", "rows"},
	{"INSERT INTO child VALUES (1, NULL), (2, NULL)", "child", "rows"},
	{"ALTER TABLE t AUTO_INCREMENT = 9", "t", "AUTO_INCREMENT"},
	{"ALTER TABLE t ALTER s SET DEFAULT 'X'", "t", "defaults"},
	{"ALTER TABLE t MODIFY v INT AS (n + 2)", "t", "rows"},
	{"ALTER TABLE t DROP KEY n, ADD KEY m (n)", "t", "information_schema.STATISTICS"},
	{"ALTER TABLE t COMMENT 'é'", "t", "SHOW CREATE TABLE in latin1"},
	{"ALTER TABLE child ADD CHECK (id > 0)", "child", "defaults"},
	{"ALTER TABLE child DROP FOREIGN KEY c", "child", "information_schema.REFERENTIAL_CONSTRAINTS"},
	{"CREATE TABLE more (id INT)", "more", "rows"},
	{"DROP TABLE child", "child", "information_schema.COLUMNS"},
	{"CREATE OR REPLACE SQL SECURITY INVOKER VIEW v AS SELECT id FROM t", "v", "SHOW CREATE TABLE in NULL"},
	{"DROP VIEW v", "v", "information_schema.VIEWS"},
	{"ALTER PROCEDURE p COMMENT 'x'", "p", "SHOW CREATE PROCEDURE in NULL"},
	{"DROP PROCEDURE p", "p", "information_schema.ROUTINES"},
	{"ALTER EVENT e COMMENT 'x'", "e", "SHOW CREATE EVENT in latin1"},
	{"ALTER EVENT e ENABLE", "e", "information_schema.EVENTS"},
	{"DROP TRIGGER r", "r", "information_schema.TRIGGERS"},
	{"ALTER DATABASE COLLATE utf8mb4_bin", "", "SHOW CREATE DATABASE in NULL"},
	{"GRANT SELECT ON t TO $ACCOUNT", "", "privileges of account 1"},
}

var changesOf = map[string][]change{
	"mysql": {
		{"UPDATE j SET hidden = 3", "j", "rows"},
		{"CREATE LIBRARY l LANGUAGE JAVASCRIPT AS 'export function one() { return 1 }'", "l", "information_schema.LIBRARIES"},
	},
	"mariadb": {{"DO NEXTVAL(q)", "q", "rows"}, {"DELETE HISTORY FROM h", "h", "rows"}},
}

func TestDiff(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		admin := s.Admin(t)
		first, second := newDatabase(t, s, admin), newDatabase(t, s, admin)
		before, after := describe(t, first), describe(t, second)
		assert.Empty(t, compare.Diff(before, after), "equal databases differ")
		for _, c := range slices.Concat(changes, changesOf[s.Flavour]) {
			run(t, admin, second, c.statement)
			before, after = after, describe(t, second)
			found := compare.Diff(before, after)
			if !slices.ContainsFunc(found, func(d compare.Difference) bool { return d.Object == c.object && d.Aspect == c.aspect }) {
				t.Errorf("%s: %v", c.statement, found)
			}
		}

		before = describe(t, first)
		run(t, admin, second, "DROP FUNCTION f")
		assert.Empty(t, compare.Diff(before, describe(t, first)), "a routine of another database counts")

		// A copy may lack what it was told to leave out, and views that the source's server cannot open, but nothing else.
		run(t, admin, first, "CREATE TABLE gone (id INT)", "CREATE VIEW broken AS SELECT * FROM gone", "DROP TABLE gone")
		before = describe(t, first)
		run(t, admin, first, "DROP VIEW broken", "DROP VIEW v", "DROP TRIGGER r")
		for _, d := range compare.Diff(before, describe(t, first), "r") {
			assert.Equal(t, "v", d.Object, "%v", d)
		}
	})
}

func describe(t *testing.T, side compare.Side) compare.Facts {
	facts, err := compare.Describe(t.Context(), side)
	require.NoError(t, err)
	return facts
}

// newDatabase creates a database with what base has, and an account.
func newDatabase(t *testing.T, s servers.MySQL, admin *sql.DB) compare.Side {
	id := strings.ToLower(rand.Text())
	side := compare.Side{DB: admin, Database: "db_" + id, Accounts: []string{"`u_" + id[:16] + "`@`%`"}}
	t.Cleanup(func() {
		for _, statement := range []string{"DROP DATABASE " + side.Database, "DROP USER " + side.Accounts[0]} {
			_, err := admin.ExecContext(context.Background(), statement)
			assert.NoError(t, err)
		}
	})
	for _, statement := range []string{"CREATE DATABASE " + side.Database + " CHARACTER SET utf8mb4", "CREATE USER $ACCOUNT",
		"GRANT ALL ON `" + strings.ReplaceAll(side.Database, "_", `\_`) + "`.* TO $ACCOUNT"} {
		_, err := admin.ExecContext(t.Context(), strings.ReplaceAll(statement, "$ACCOUNT", side.Accounts[0]))
		require.NoError(t, err)
	}
	run(t, admin, side, slices.Concat(base, baseOf[s.Flavour])...)
	return side
}

func run(t *testing.T, admin *sql.DB, side compare.Side, statements ...string) {
	conn, err := admin.Conn(t.Context())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	for _, statement := range append([]string{"USE " + side.Database}, statements...) {
		_, err = conn.ExecContext(t.Context(), strings.ReplaceAll(statement, "$ACCOUNT", side.Accounts[0]))
		require.NoError(t, err, statement)
	}
}
