package binlog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/binlog"
	"mysql-broker/test/testdrive"
)

// TestRandomHistories runs random statements, and compares what their replay makes. $REPLAY_STEPS says how many are
// to be compared, of random seeds, instead of the few of fixed seeds; $REPLAY_SEED repeats one.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	steps, seeds := 150, []uint64{1, 2}
	if text := os.Getenv("REPLAY_STEPS"); text != "" {
		all, err := strconv.Atoi(text)
		require.NoError(t, err)
		seeds = []uint64{rand.Uint64(), rand.Uint64(), rand.Uint64()} // at once, as they wait more than they work
		steps = (all + len(seeds) - 1) / len(seeds)
	}
	if text := os.Getenv("REPLAY_SEED"); text != "" {
		seed, _ := strconv.ParseUint(text, 10, 64)
		seeds = []uint64{seed}
	}
	for _, seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			eachServer(t, "", func(t *testing.T, s server) {
				h := randomHistory{generator: generator{rand.New(rand.NewPCG(seed, 0))}, steps: steps}
				for h.compared < steps && h.others <= partSteps+h.compared/10 {
					t.Run("databases", func(t *testing.T) { h.compare(t, s.tenant(t), s.tenant(t)) })
				}
				t.Logf("%d statements compared, %d others", h.compared, h.others)
				assert.Equal(t, steps, h.compared, "statements compared: too many parts cannot be")
			})
		})
	}
}

// partSteps is after how many statements databases are compared, so that a difference is soon found.
const partSteps = 150

// randomHistory counts the statements whose replay was compared, and those of parts that could not be compared.
type randomHistory struct {
	generator
	steps, compared, others int
}

// compare compares databases, part by part, for as long as they are the same.
func (h *randomHistory) compare(t *testing.T, source, target tenant) {
	for same := true; same && h.compared < h.steps; {
		n := min(partSteps, h.steps-h.compared)
		same = false
		part := fmt.Sprintf("part %d", (h.compared+h.others)/partSteps)
		t.Run(part, func(t *testing.T) { same = h.replays(t, source, target, n) }) // which ends its sessions
		if same {
			h.compared += n
		} else {
			h.others += n
		}
	}
}

// generator makes statements that often work.
type generator struct{ *rand.Rand }

// replays runs statements, replays them, and reports whether the target is the same then.
func (g generator) replays(t *testing.T, source, target tenant, steps int) bool {
	from := source.position(t)
	ran := g.run(t, source, steps)
	err := source.replay(t, from, target)
	if _, refused := errors.AsType[*binlog.UnsupportedError](err); refused {
		t.Logf("of %d statements: %v", len(ran), err)
		return false
	}
	require.NoError(t, err, strings.Join(ran, ";\n"))
	if damage := source.damage(t); damage != nil {
		t.Logf("the source is damaged: %q", damage)
		return false
	}
	assert.Empty(t, target.damage(t), "damage of the target")
	return assert.Empty(t, source.differences(t, target), strings.Join(ran, ";\n"))
}

// run runs statements in a session, and returns those that the server has accepted.
func (g generator) run(t *testing.T, n tenant, steps int) (ran []string) {
	conn := n.session(t)
	testdrive.Exec(t, conn, "SET innodb_lock_wait_timeout = 1, lock_wait_timeout = 1")
	statements := []string{g.table(), g.table(), g.table()}
	for len(statements) < steps {
		statements = append(statements, g.statement())
	}
	for _, statement := range append(statements, "COMMIT") {
		_, err := conn.ExecContext(context.Background(), statement)
		if _, refused := errors.AsType[*mysql.MySQLError](err); !refused {
			require.NoError(t, err, "the server crashed at %s, after\n%s", statement, strings.Join(ran, ";\n"))
			ran = append(ran, statement)
		}
	}
	return ran
}

func (g generator) one(of ...string) string { return of[g.IntN(len(of))] }
func (g generator) name() string            { return fmt.Sprintf("t%d", g.IntN(4)) }
func (g generator) column() string          { return fmt.Sprintf("c%d", g.IntN(5)) }
func (g generator) number() string          { return strconv.Itoa(g.IntN(12)) }

func (g generator) value() string {
	return g.one("NULL", "RAND() * 10", "UUID()", "NOW()", "'é'", "'a'", "b'101'", "x'00ff'", "'2024-02-29 12:34:56.789'", "-1.5",
		g.number(), g.number(), "REPEAT('x', 300)", "CONNECTION_ID()", "DEFAULT")
}

func (g generator) kind() string {
	return g.one("INT", "BIGINT UNSIGNED", "VARCHAR(40)", "VARCHAR(200) CHARACTER SET latin1", "TEXT", "BLOB", "VARBINARY(30)",
		"DECIMAL(12,4)", "FLOAT", "DOUBLE", "DATETIME(3)", "TIMESTAMP(6) NULL", "DATE", "TIME(2)", "YEAR", "BIT(9)",
		"ENUM('a','é')", "SET('a','b')", "JSON", "CHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin") +
		g.one("", "", "", " DEFAULT 5", " DEFAULT '2020-02-02'", " DEFAULT 'a'", " COMMENT 'é''; DROP'", " INVISIBLE", " NOT NULL")
}

func (g generator) table() string {
	columns := []string{"id INT" + g.one(" AUTO_INCREMENT", "") + " PRIMARY KEY"}
	for n := range 1 + g.IntN(4) {
		columns = append(columns, fmt.Sprintf("c%d %s", n, g.kind()))
	}
	return "CREATE TABLE " + g.one("", "IF NOT EXISTS ") + g.name() + " (" + strings.Join(columns, ", ") + ")" +
		g.one("", "", " DEFAULT CHARSET=latin1", " CHARSET utf8mb4", " PARTITION BY HASH (id) PARTITIONS 3", " ROW_FORMAT=DYNAMIC")
}

func (g generator) where() string {
	return g.one("", " WHERE id = "+g.number(), " WHERE id < "+g.number(), " WHERE "+g.column()+" IS NOT NULL",
		" ORDER BY id LIMIT "+g.number())
}

func (g generator) statement() string {
	t, u, c := g.name(), g.name(), g.one(g.column(), g.column(), g.column(), "k")
	switch n := g.IntN(100); {
	case n < 30:
		return g.one("INSERT", "INSERT IGNORE", "REPLACE") + fmt.Sprintf(" INTO %s (id, %s) VALUES (%s, %s), (%s, %s)", t, c, g.number(),
			g.value(), g.number(), g.value()) + g.one("", "", " ON DUPLICATE KEY UPDATE id = id + 20, "+c+" = "+g.value())
	case n < 40:
		return "UPDATE " + g.one("", "IGNORE ") + t + " SET " + c + " = " + g.value() + g.one("", ", id = id + "+g.number()) + g.where()
	case n < 45:
		return "DELETE FROM " + t + g.where()
	case n < 48:
		return fmt.Sprintf(g.one("DELETE %[1]s, %[2]s FROM %[1]s JOIN %[2]s USING (id) WHERE id < %[3]s",
			"UPDATE %[1]s JOIN %[2]s USING (id) SET %[1]s.%[4]s = %[3]s, %[2]s.%[4]s = %[3]s",
			"INSERT IGNORE INTO %[1]s (id, %[4]s) SELECT id + 100, %[4]s FROM %[2]s",
			"REPLACE INTO %[1]s SELECT * FROM %[2]s"), t, u, g.number(), c)
	case n < 56:
		return g.one("BEGIN", "COMMIT", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO s")
	case n < 64:
		return "SET " + g.one("time_zone = '+08:00'", "time_zone = DEFAULT", "NAMES latin1", "NAMES utf8mb4", "sql_mode = ''",
			"sql_mode = DEFAULT", "sql_mode = 'NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'", "auto_increment_increment = 3",
			"auto_increment_increment = 1", "foreign_key_checks = 0", "foreign_key_checks = 1", "timestamp = 1700000000.5",
			"timestamp = DEFAULT", "lc_time_names = 'de_DE'")
	case n < 70:
		return g.table()
	case n < 76:
		return g.one("DROP TABLE IF EXISTS "+t, "TRUNCATE TABLE "+t, "CREATE TABLE "+t+" LIKE "+u,
			// MySQL crashes if a foreign key refers to the table that is being created, so create x, to which none refers.
			"CREATE TABLE x (PRIMARY KEY (id)) AS SELECT * FROM "+u, "RENAME TABLE x TO "+t, fmt.Sprintf("RENAME TABLE %[1]s TO tmp, %[2]s TO %[1]s, tmp TO %[2]s", t, u))
	case n < 90:
		return "ALTER TABLE " + t + " " + g.alter(u, g.column())
	}
	return g.program(t, c)
}

func (g generator) alter(u, c string) string {
	return g.one("ADD COLUMN "+c+" "+g.kind()+g.one("", " FIRST", " AFTER id"), "DROP COLUMN "+c, "MODIFY "+c+" "+g.kind(),
		"CHANGE "+c+" "+g.column()+" "+g.kind(), "ADD INDEX i"+g.number()+" ("+c+")", "DROP INDEX i"+g.number(), "ADD UNIQUE ("+c+")",
		"CONVERT TO CHARACTER SET "+g.one("utf8mb4", "latin1"), "ADD CHECK ("+c+" <> 'q')", "ADD COLUMN n INT AUTO_INCREMENT UNIQUE",
		"ADD FOREIGN KEY (id) REFERENCES "+u+" (id) ON DELETE CASCADE ON UPDATE "+g.one("CASCADE", "RESTRICT"),
		"ADD COLUMN k INT, ADD FOREIGN KEY (k) REFERENCES "+u+" (id) ON DELETE SET NULL", // INT as id is: servers refuse another type
		"ADD COLUMN g"+g.number()+" INT AS (id + 1) "+g.one("STORED", "VIRTUAL"),
		"ADD COLUMN "+c+" DATETIME(6) DEFAULT NOW(6)", "COMMENT 'START TRANSACTION'", "ALTER COLUMN "+c+" SET DEFAULT 7", "FORCE",
		"RENAME COLUMN "+c+" TO "+g.column(), "PARTITION BY HASH (id) PARTITIONS 2", "ADD PARTITION PARTITIONS 2", "COALESCE PARTITION 1",
		"TRUNCATE PARTITION p1", "REMOVE PARTITIONING")
}

func (g generator) program(t, c string) string {
	name := g.number()
	return g.one("CREATE OR REPLACE VIEW v"+name+" AS SELECT id, 'é' AS e FROM "+t, "DROP VIEW IF EXISTS v"+name,
		"CREATE TRIGGER r"+name+" BEFORE "+g.one("INSERT", "UPDATE")+" ON "+t+" FOR EACH ROW SET NEW."+c+" = "+g.one("NEW.id", "'t'"),
		"DROP TRIGGER IF EXISTS r"+name, "CREATE PROCEDURE p"+name+" () BEGIN START TRANSACTION; DELETE FROM "+t+" WHERE id = 3; COMMIT; END",
		"CALL p"+name+"()", "DROP PROCEDURE IF EXISTS p"+name,
		"CREATE EVENT e"+name+" ON SCHEDULE EVERY 9 YEAR STARTS NOW() + INTERVAL 1 YEAR DISABLE DO DELETE FROM "+t, "DROP EVENT IF EXISTS e"+name,
		"CREATE SEQUENCE s"+name+" INCREMENT BY 3", "DO NEXTVAL(s"+name+")", "DROP SEQUENCE IF EXISTS s"+name,
		"CREATE FUNCTION f"+name+" (a INT) RETURNS INT NO SQL RETURN a + 1", "ALTER DATABASE CHARACTER SET "+g.one("utf8mb4", "latin1"))
}
