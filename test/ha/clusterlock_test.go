package ha

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
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

// A tenant of a cluster locks a table in one session, and changes it in another one, with Galera on the same node or
// another. Other tenants can bind and unbind nevertheless, and keep their sessions if the broker can tell whose lock it is.
func TestClusterLock(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		w := newClusterWorld(t, s.Flavour)
		primary := w.Primary(t)
		other, third := (primary+1)%len(w.Nodes), (primary+2)%len(w.Nodes)
		if s.Flavour == mysqld.MySQL {
			w.expectLocksEnd(t, []tableLock{
				{"for reading, from writing", "LOCK TABLES t READ", "INSERT INTO t VALUES (1)", other, primary},
				{"for reading, from altering", "LOCK TABLES t READ", "ALTER TABLE t ADD COLUMN c int", third, primary},
				{"with a handler", "HANDLER t OPEN", "DROP TABLE t", other, primary},
				{"by a transaction", "START TRANSACTION; SELECT * FROM t", "ALTER TABLE t ADD COLUMN c int", third, primary},
			})
			w.preparesOn(t, third, primary)
			w.clear(t)
			return
		}
		w.expectLocksEnd(t, []tableLock{
			{"for reading, on the broker's node", "LOCK TABLES t READ", "INSERT INTO t VALUES (1)", primary, other},
			{"for writing, on another node", "LOCK TABLES t WRITE", "INSERT INTO t VALUES (1)", other, third},
			{"for writing, from altering", "LOCK TABLES t WRITE", "ALTER TABLE t ADD COLUMN c int", third, primary},
			{"with a handler", "HANDLER t OPEN", "ALTER TABLE t ADD COLUMN c int", other, primary},
			{"for writing, from altering on that node", "LOCK TABLES t WRITE", "ALTER TABLE t ADD COLUMN c int", primary, primary},
			{"for reading, from truncating on that node", "LOCK TABLES t READ",
				"SET STATEMENT max_statement_time = 0 FOR TRUNCATE TABLE t", other, other},
		})
		const hidden = "that no table in use shows"
		locking, bystander, decoy := w.newTenant(t), w.newTenant(t), w.newTenant(t)
		w.lock(t, decoy, "LOCK TABLES t WRITE", "DO 1", other, primary)
		w.lock(t, locking, "BACKUP LOCK t", "DROP TABLE t", other, primary)
		w.expectBinds(t, hidden, bystander, 2*failoverTime)
		locking.expectSessions(t, hidden, other)
		for n, session := range w.newTenant(t).sessions { // no tenant can choose to make a table on one node only
			_, err := session.ExecContext(t.Context(), "SET SESSION wsrep_OSU_method = RSU")
			var method string
			require.NoError(t, session.QueryRowContext(t.Context(), "SELECT @@SESSION.wsrep_OSU_method").Scan(&method))
			assert.Equal(t, "TOI", method, "a tenant on node %d executes DDL by %s: %v", n+1, method, err)
		}
		// The brokers check their privileges without a GRANT that fails, which Galera replicates, and about which the other
		// nodes keep files.
		for n, node := range w.Nodes {
			assert.False(t, strings.Contains(node.Log(), "Error_code: 1133"), "node %d has executed a GRANT that failed", n+1)
		}
		w.clear(t)
	})
}

// preparesOn leaves a prepared XA transaction on a secondary, which keeps a table locked after its session has ended. The
// brokers log that the node has to be restarted, which helps.
func (w *clusterWorld) preparesOn(t *testing.T, secondary, primary int) {
	const held = "by an XA transaction"
	locking, bystander := w.newTenant(t), w.newTenant(t)
	w.lock(t, locking, "XA START 'left'; SELECT * FROM t; XA END 'left'; XA PREPARE 'left'", "DROP TABLE t", secondary, primary)
	testdrive.Eventually(t, "a broker logs what to do", func() bool {
		return strings.Contains(w.brokers[0].Log()+w.brokers[1].Log(), "has to restart the node")
	})
	locking.expectSessions(t, held, secondary)
	w.Nodes[secondary].Kill(t)
	w.Start(t, secondary, false)
	w.AwaitComplete(t)
	w.expectBinds(t, held, bystander, failoverTime)
}

// tableLock is a lock of the table t, in a session on one node, from which another session changes the table.
type tableLock struct {
	name, lock, change string
	on, from           int // nodes
}

// expectLocksEnd expects that locks end soon, and no session of others does.
func (w *clusterWorld) expectLocksEnd(t *testing.T, all []tableLock) {
	for _, c := range all {
		locking, bystander := w.newTenant(t), w.newTenant(t)
		changed := w.lock(t, locking, c.lock, c.change, c.on, c.from)
		w.expectBinds(t, c.name, bystander, failoverTime)
		assert.NoError(t, <-changed, "a lock %s: %s", c.name, c.change)
		locking.expectSessions(t, c.name, c.on)
		bystander.expectSessions(t, c.name, -1)
		// In the log of the broker that was faster.
		assert.Contains(t, w.brokers[0].Log()+w.brokers[1].Log(), `"count":1,"databases":["`+locking.database+`"]`,
			"a lock %s: no log line names its database, %s", c.name, locking.database)
	}
}

// tenant has an instance, and a session on every node.
type tenant struct {
	instance, database string
	sessions           []*sql.Conn
	pools              []*sql.DB // for more sessions on the nodes
}

func (w *clusterWorld) newTenant(t *testing.T) tenant {
	b := w.bound(t)
	pools, sessions := w.OpenOnEach(t, b.Credentials)
	return tenant{b.InstanceID, b.Credentials.Database, sessions, pools}
}

// lock locks the table t of a tenant on one node, and then changes it in another session. Where that is on the same node,
// the change waits for the end of the lock.
func (w *clusterWorld) lock(t *testing.T, of tenant, lock, change string, on, from int) (changed <-chan error) {
	holder := of.sessions[on]
	testdrive.Exec(t, of.sessions[from], "CREATE TABLE t (n int PRIMARY KEY)")
	testdrive.Eventually(t, "the table is there", func() bool {
		_, err := holder.ExecContext(t.Context(), "SELECT * FROM t")
		return err == nil
	})
	testdrive.Exec(t, holder, strings.Split(lock, "; ")...)
	outcome := make(chan error, 1)
	if on != from {
		testdrive.Exec(t, of.sessions[from], change)
		close(outcome)
		return outcome
	}
	go func() {
		_, err := of.pools[on].ExecContext(t.Context(), change)
		outcome <- err
	}()
	testdrive.Eventually(t, "the change waits", func() bool {
		var waits bool
		err := w.Nodes[on].Query(t, `SELECT COUNT(*) > 0 FROM information_schema.processlist
			WHERE state LIKE 'Waiting for % lock' AND db = '`+of.database+"'", &waits)
		return err == nil && waits
	})
	return outcome
}

// expectBinds binds and unbinds within a limit.
func (w *clusterWorld) expectBinds(t *testing.T, lock string, of tenant, limit time.Duration) {
	interval := limits.Watch()
	binding, err := w.Bind(w.small, of.instance)
	require.NoError(t, err, "a lock %s: bind", lock)
	require.NoError(t, w.Unbind(w.small, binding), "a lock %s: unbind", lock)
	interval.Done(t, "a lock "+lock+": bind and unbind", limit)
}

// expectSessions expects that a tenant has its sessions on all nodes but one.
func (of tenant) expectSessions(t *testing.T, lock string, ended int) {
	for n, session := range of.sessions {
		_, err := session.ExecContext(context.Background(), "DO 1")
		assert.Equal(t, n == ended, err != nil, "a lock %s: a session on node %d of %s: %v", lock, n+1, of.database, err)
	}
}

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
	large, writer := of.sessions[on], of.sessions[from]
	testdrive.Exec(t, writer, "CREATE TABLE t (n int AUTO_INCREMENT PRIMARY KEY, a char(40), b char(40), KEY (a), KEY (b))")
	testdrive.Exec(t, large, "SET SESSION wsrep_sync_wait = 1", // until the table is there
		"SELECT * FROM t", "SET SESSION wsrep_sync_wait = 0", "BEGIN")
	for began, rows := time.Now(), 0; time.Since(began) < 45*time.Second && rows < 300_000; rows += 2000 {
		testdrive.Exec(t, large, "INSERT INTO t (a, b) SELECT SHA1(RAND()), SHA1(RAND()) FROM seq_1_to_2000")
	}
	testdrive.Exec(t, writer, "ALTER TABLE t COMMENT = 'changed'")
	testdrive.Eventually(t, "the change is applied", func() bool {
		var comment string
		err := w.Nodes[on].Query(t, "SELECT table_comment FROM information_schema.tables WHERE table_schema = '"+
			of.database+"' AND table_name = 't'", &comment)
		return err == nil && comment == "changed"
	})
	const deadlock = 1213
	_, err := large.ExecContext(t.Context(), "DO 1")
	refused, ok := errors.AsType[*mysql.MySQLError](err)
	assert.True(t, ok && refused.Number == deadlock, "a transaction that Galera has rolled back: %v, want a deadlock", err)
}

// altersForLong has a tenant execute DDL on one node that takes long on every node, while another tenant writes on all.
// Meanwhile, a session on that node waits for the table, and one on each node to execute other DDL.
func (w *clusterWorld) altersForLong(t *testing.T, of, bystander tenant, on int) {
	testdrive.Exec(t, of.sessions[on], "INSERT INTO t (a) SELECT 'abcdefghij' FROM seq_1_to_250")
	testdrive.Exec(t, bystander.sessions[on], "CREATE TABLE t (n int AUTO_INCREMENT PRIMARY KEY)")
	altered, later := make(chan error, 1), make(chan error, 1+len(w.Nodes))
	go func() {
		_, err := of.sessions[on].ExecContext(t.Context(),
			"ALTER TABLE t ADD CONSTRAINT slow CHECK (SHA2(REPEAT(a, 1000000), 512) <> ''), ALGORITHM = COPY")
		altered <- err
	}()
	testdrive.Eventually(t, "rows are copied", func() bool {
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
			return
		default:
			for _, session := range bystander.sessions {
				testdrive.Exec(t, session, "INSERT INTO t VALUES ()")
			}
		}
	}
}
