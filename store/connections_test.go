package store_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/cmd/mysql-broker/dev/pgcluster"
	"mysql-broker/store"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestTLSOfPostgreSQL connects to a PostgreSQL that takes TLS connections only.
func TestTLSOfPostgreSQL(t *testing.T) {
	t.Parallel()
	ca, server := startWithTLS(t)
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(caFile, []byte(ca), 0o600))
	foreign, _, _ := testdrive.NewKeyPair(t, "127.0.0.1")
	for _, c := range []struct {
		what, host, mode, ca string
		works                bool
	}{
		{"verified, CA in the URL", "127.0.0.1", "verify-full", ca, true},
		{"verified, CA in a file", "127.0.0.1", "verify-full", caFile, true},
		{"another CA", "127.0.0.1", "verify-full", foreign, false},
		{"another host name", "localhost", "verify-full", ca, false},
		{"any host name", "localhost", "verify-ca", ca, true},
		{"any host name, another CA", "localhost", "verify-ca", foreign, false},
		{"system's CAs", "127.0.0.1", "verify-full", "", false},
		{"not verified", "127.0.0.1", "require", "", true},
		{"plain text", "127.0.0.1", "disable", "", false},
	} {
		u := *server
		u.Host = net.JoinHostPort(c.host, u.Port())
		query := url.Values{"sslmode": {c.mode}}
		if c.ca != "" {
			query.Set("sslrootcert", c.ca)
		}
		u.RawQuery = query.Encode()
		expectReached(t, c.what, u, c.works)
	}
	plain, err := url.Parse(servers.Postgres(t))
	require.NoError(t, err)
	plain.RawQuery = "sslmode=require"
	expectReached(t, "a server without TLS", *plain, false)
}

func expectReached(t *testing.T, what string, u url.URL, works bool) {
	_, err := store.Migrate(t.Context(), u.String())
	assert.Equal(t, works, err == nil, "%s: %v", what, err)
	password, _ := u.User.Password()
	assert.False(t, err != nil && strings.Contains(err.Error(), password),
		"%s: the error quotes the password: %v", what, err)
}

// startWithTLS starts a PostgreSQL with a certificate for 127.0.0.1, and returns the CA in PEM and its URL.
func startWithTLS(t *testing.T) (ca string, server *url.URL) {
	t.Helper()
	servers.Needed(t)
	dir, err := os.MkdirTemp("", "pgtls") // not t.TempDir, which the server's user may not enter
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711))
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	cluster, err := pgcluster.Start(t.Context(), pgcluster.Config{Dir: filepath.Join(dir, "postgres")})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, cluster.Stop(context.Background())) })
	ca, key, leaf := testdrive.NewKeyPair(t, "127.0.0.1")
	data := filepath.Join(dir, "postgres", "data")
	info, err := os.Stat(data)
	require.NoError(t, err)
	owner := info.Sys().(*syscall.Stat_t)
	for name, content := range map[string]string{"server.crt": string(leaf), "server.key": string(key),
		"pg_hba.conf": "hostssl all all 127.0.0.1/32 md5\n"} {
		path := filepath.Join(data, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		require.NoError(t, os.Chown(path, int(owner.Uid), int(owner.Gid)))
	}
	exec(t, cluster.URL(), "ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()")
	if server, err = url.Parse(cluster.URL()); err != nil {
		t.Fatal("the cluster's URL is none") // err would show its password
	}
	plain := *server
	plain.RawQuery = "sslmode=disable"
	testdrive.Eventually(t, "the server has read its new settings, and refuses plain text", func() bool {
		conn, err := pgx.Connect(t.Context(), plain.String())
		if err == nil {
			require.NoError(t, conn.Close(t.Context()))
		}
		return err != nil
	})
	return ca, server
}

// The URL names a primary and a standby.
func TestFailover(t *testing.T) {
	t.Parallel()
	t.Run("synchronous", testSynchronousFailover)
	t.Run("asynchronous", testAsynchronousFailover)
	t.Run("frozen", testFrozenPrimary)
}

// recordTask records a task for an instance of that name.
func recordTask(t *testing.T, s *store.Store, name string) (store.Task, error) {
	task := &store.Task{}
	err := s.InTx(t.Context(), func(tx *store.Tx) error {
		task = tx.InsertTask(store.NewTask{InstanceID: name, Kind: store.Update, PlanID: "p", Owner: "me",
			LeaseTTL: time.Minute})
		return nil
	})
	return *task, err
}

func testSynchronousFailover(t *testing.T) {
	t.Parallel()
	pair := testdrive.StartPostgresPair(t, true)
	s := openMigrated(t, pair.URL)
	var acknowledged sync.Map // ids of tasks, by their instances
	var count atomic.Int64
	var stop atomic.Bool
	var writers sync.WaitGroup
	for writer := range 4 {
		writers.Go(func() {
			for n := 0; !stop.Load(); n++ {
				name := fmt.Sprintf("i-%d-%d", writer, n)
				task, err := recordTask(t, s, name)
				assert.False(t, err != nil && !errors.Is(err, store.ErrUnavailable), "%s: %v", name, err)
				if err == nil {
					acknowledged.Store(name, task.ID)
					count.Add(1)
				}
			}
		})
	}
	testdrive.Eventually(t, "tasks are recorded", func() bool { return count.Load() > 50 })
	pair.Primary.Kill(t)
	pair.Promote(t)
	promoted := count.Load()
	testdrive.Eventually(t, "tasks are recorded on the new primary", func() bool { return count.Load() > promoted })
	testdrive.Eventually(t, "more tasks", func() bool { return count.Load() > promoted+50 })
	stop.Store(true)
	writers.Wait()
	for name, id := range acknowledged.Range {
		task, err := s.Tasks.Get(t.Context(), id.(int64))
		assert.True(t, err == nil && task.InstanceID == name, "%s of task %d is lost: %+v, %v", name, id, task, err)
	}
	hold, err := s.Recovery.Hold(t.Context())
	assert.True(t, err == nil && hold == nil, "nothing was lost, but there is a hold: %+v, %v", hold, err)
	task, err := recordTask(t, s, "last")
	assert.True(t, err == nil && task.Epoch > 1<<32, "a lease on the new timeline has the epoch %d, %v", task.Epoch, err)
}

func testAsynchronousFailover(t *testing.T) {
	t.Parallel()
	pair := testdrive.StartPostgresPair(t, false)
	s := openMigrated(t, pair.URL)
	var told []store.Failover
	s.OnFailover(func(f store.Failover) { told = append(told, f) })
	first, err := recordTask(t, s, "first")
	require.NoError(t, err)
	awaitOnStandby(t, pair, "first")
	pair.Standby.Kill(t) // what is sent to one that is only frozen is not lost
	lost, err := recordTask(t, s, "lost")
	require.NoError(t, err)
	pair.Primary.Kill(t)
	pair.Standby.Start(t)
	pair.Promote(t)
	var hold *store.Hold
	testdrive.Eventually(t, "the new primary is used", func() bool {
		hold, err = s.Recovery.Hold(t.Context())
		return err == nil
	})
	assert.True(t, hold != nil && strings.Contains(hold.Reason, fmt.Sprintf("task_%d", lost.ID)), "the hold is %+v", hold)
	assert.True(t, len(told) == 1 && told[0].LostTask == lost.ID && told[0].Timeline == 2, "told: %+v", told)
	_, err = s.Tasks.Get(t.Context(), first.ID)
	assert.NoError(t, err, "the first task")
	next, err := recordTask(t, s, "next")
	assert.True(t, err == nil && next.ID > lost.ID+1_000_000, "the next task is %d after %d, %v", next.ID, lost.ID, err)
	// Even if the id of the lost task had been used again, its worker could not write.
	assert.ErrorIs(t, s.Queue.Progress(t.Context(), held(lost), "a", "…", false), store.ErrLeaseLost,
		"the worker of the lost task has written")
}

// awaitOnStandby waits until a standby that is asynchronous has the schema, and then the task of an instance.
func awaitOnStandby(t *testing.T, pair *testdrive.PostgresPair, instance string) {
	for _, query := range []string{"SELECT FROM pg_class WHERE relname = 'task'",
		"SELECT FROM task WHERE instance_id = '" + instance + "'"} {
		testdrive.Eventually(t, "on the standby: "+query, func() bool { return pair.Standby.Has(t, query) })
	}
}

// A primary that comes back after another one was promoted is not used, although it would accept reads and writes.
func testFrozenPrimary(t *testing.T) {
	t.Parallel()
	pair := testdrive.StartPostgresPair(t, false)
	s := openMigrated(t, pair.URL)
	_, err := recordTask(t, s, "before")
	require.NoError(t, err)
	awaitOnStandby(t, pair, "before")
	pair.Primary.Freeze(t)
	pair.Promote(t)
	testdrive.Eventually(t, "the new primary is used", func() bool {
		_, err := recordTask(t, s, "after")
		return err == nil
	})
	pair.Primary.Thaw(t)
	fresh := servers.OpenStore(t, pair.URL)
	for n := range 20 {
		for _, one := range []*store.Store{s, fresh} {
			_, err = one.Tasks.Latest(t.Context(), "after", "", "")
			assert.NoError(t, err, "read %d did not come from the new primary", n)
		}
	}
	_, err = recordTask(t, fresh, "by another")
	assert.NoError(t, err)
	// A transaction of "after" that was sent to the frozen server, and never acknowledged, is committed there.
	assert.False(t, pair.Primary.Has(t, "SELECT FROM task WHERE instance_id = 'by another'"), "the old primary was used")
}
