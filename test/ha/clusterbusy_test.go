package ha

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Tenants of a Galera cluster keep nodes from committing for long, but no session has a lock that Galera does not end
// by itself. The broker ends no session because of that.
func TestClusterBusy(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		if s.Flavour != mysqld.MariaDB {
			return
		}
		w := newClusterWorld(t, s.Flavour)
		for _, node := range w.Nodes {
			require.NoError(t, node.Exec(t, "SET GLOBAL wsrep_slave_threads = 4"))
		}
		busy, bystander := w.newTenant(t), w.newTenant(t)
		w.rollsBackForLong(t, busy, 1, 2)
		bystander.expectSessions(t, "of a rollback", -1)
		w.altersForLong(t, busy, bystander, 2)
		busy.expectSessions(t, "of ALTER TABLE", -1)
		bystander.expectSessions(t, "of ALTER TABLE", -1)
		w.clear(t)
	})
}

// rollsBackForLong changes a table on one node while a large transaction on another one has a lock on it. Galera rolls
// that back, which takes about a third of the time of its statements, and cannot apply the change before.
func (w *clusterWorld) rollsBackForLong(t *testing.T, of tenant, on, from int) {
	t.Helper()
	large, writer := of.sessions[on], of.sessions[from]
	execute(t, writer, "CREATE TABLE t (n int AUTO_INCREMENT PRIMARY KEY, a char(40), b char(40), KEY (a), KEY (b))")
	execute(t, large, "SET SESSION wsrep_sync_wait = 1") // until the table is there
	execute(t, large, "SELECT * FROM t")
	execute(t, large, "SET SESSION wsrep_sync_wait = 0")
	execute(t, large, "BEGIN")
	rows := 0
	for began := time.Now(); time.Since(began) < 45*time.Second && rows < 300_000; rows += 2000 {
		execute(t, large, "INSERT INTO t (a, b) SELECT SHA1(RAND()), SHA1(RAND()) FROM seq_1_to_2000")
	}
	began := time.Now()
	execute(t, writer, "ALTER TABLE t COMMENT = 'changed'")
	testdrive.Eventually(t, limits.Stuck, "the change is applied", func() bool {
		var comment string
		err := w.Nodes[on].Query(t, "SELECT table_comment FROM information_schema.tables WHERE table_schema = '"+
			of.database+"' AND table_name = 't'", &comment)
		return err == nil && comment == "changed"
	})
	t.Logf("a rollback of %d rows held a node up for %.1f s", rows, time.Since(began).Seconds())
	const deadlock = 1213
	_, err := large.ExecContext(t.Context(), "DO 1")
	refused, ok := errors.AsType[*mysql.MySQLError](err)
	assert.True(t, ok && refused.Number == deadlock, "a transaction that Galera has rolled back: %v, want a deadlock", err)
}

// altersForLong has a tenant execute DDL on one node that takes long on every node, while another tenant writes on all.
// Meanwhile, a session on that node waits for the table, and one on each node to execute other DDL.
func (w *clusterWorld) altersForLong(t *testing.T, of, bystander tenant, on int) {
	t.Helper()
	execute(t, of.sessions[on], "INSERT INTO t (a) SELECT 'abcdefghij' FROM seq_1_to_250")
	execute(t, bystander.sessions[on], "CREATE TABLE t (n int AUTO_INCREMENT PRIMARY KEY)")
	began := time.Now()
	altered, later := make(chan error, 1), make(chan error, 1+len(w.Nodes))
	go func() {
		_, err := of.sessions[on].ExecContext(t.Context(),
			"ALTER TABLE t ADD CONSTRAINT slow CHECK (SHA2(REPEAT(a, 1000000), 512) <> ''), ALGORITHM = COPY")
		altered <- err
	}()
	testdrive.Eventually(t, limits.Stuck, "rows are copied", func() bool {
		var copies bool
		err := w.Nodes[on].Query(t, `SELECT COUNT(*) > 0 FROM information_schema.processlist
			WHERE state = 'copy to tmp table'`, &copies)
		return err == nil && copies
	})
	go func() {
		_, err := of.pools[on].ExecContext(t.Context(), "INSERT INTO t (a) VALUES ('later')")
		later <- err
	}()
	for n, pool := range of.pools {
		go func() {
			_, err := pool.ExecContext(t.Context(), fmt.Sprintf("CREATE TABLE later%d (n int PRIMARY KEY)", n))
			later <- err
		}()
	}
	for {
		select {
		case err := <-altered:
			assert.NoError(t, err, "ALTER TABLE")
			for range cap(later) {
				assert.NoError(t, <-later, "a statement that waited meanwhile")
			}
			t.Logf("ALTER TABLE took %.1f s", time.Since(began).Seconds())
			return
		default:
			for _, session := range bystander.sessions {
				execute(t, session, "INSERT INTO t VALUES ()")
			}
		}
	}
}

func execute(t *testing.T, in *sql.Conn, statement string) {
	t.Helper()
	_, err := in.ExecContext(t.Context(), statement)
	require.NoError(t, err, statement)
}
