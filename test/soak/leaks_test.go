package soak

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"mysql-broker/broker/catalog"
	"mysql-broker/cmd/mysql-broker/app"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

const (
	manyOperations = 3000 // on all flavours together; a leak in each would be far above what a broker may hold
	// memoryGrowth is by how many bytes the memory in use may grow once a broker has seen everything. 200 bytes lost by each
	// operation would be more in 7½ minutes, which each of two flavours has of 15.
	memoryGrowth = 8 << 20

	// What a broker may hold while it runs, whatever it has done: the README says how many connections to PostgreSQL,
	// provisioner/mysqladmin how many to a server.
	postgresConnections = 16
	mysqlConnections    = 20
)

// TestManyOperationsLeaveNothingBehind has a broker in this process do very much at once, for as long as $SOAK says too,
// e.g. 15m, and counts what it holds.
func TestManyOperationsLeaveNothingBehind(t *testing.T) {
	length, err := time.ParseDuration(cmp.Or(os.Getenv("SOAK"), "0"))
	require.NoError(t, err, "SOAK")
	all := servers.Chosen(t, servers.AllMySQL(t))
	for _, s := range all {
		t.Run(s.Flavour, func(t *testing.T) {
			private := testdrive.Private(t, s.Flavour)
			env := testdrive.Environment(t, private)
			w := newWitness(t, private, env["DATABASE_URL"])
			goroutines, files := goleak.IgnoreCurrent(), openFiles(t)

			var operations atomic.Int64
			a, broker := start(t, env)
			tenants := crowd(t, broker, &operations)
			require.NoError(t, liveTogether(tenants, func() bool { return false })) // opens the connections that it keeps
			begun, since := w.settled(t), time.Now()
			lived := make(chan error, 1)
			go func() {
				lived <- liveTogether(tenants, func() bool {
					return operations.Load() < int64(manyOperations/len(all)) || time.Since(since) < length/time.Duration(len(all))
				})
			}()
			w.watch(t, lived)
			ended := w.settled(t)
			t.Logf("%d operations; before: %+v; after: %+v", operations.Load(), begun, ended)
			more := ended.goroutines - begun.goroutines
			assert.True(t, more <= postgresConnections+mysqlConnections, "%d goroutines more than before", more)
			more = ended.files - begun.files
			assert.True(t, more <= postgresConnections+mysqlConnections, "%d open files more than before", more)
			more = ended.memory - begun.memory
			assert.True(t, more <= memoryGrowth, "%d bytes of memory more than before", more)
			ended.expectFewConnections(t)

			a.Close()
			goleak.VerifyNone(t, goroutines)
			testdrive.Eventually(t, "all is closed", func() bool {
				left := w.count(t)
				return left.files <= files && left.postgres == 0 && left.mysql == 0
			})
		})
	}
}

// start starts a broker in this process.
func start(t *testing.T, env map[string]string) (*app.App, *testdrive.Broker) {
	cfg, err := config.FromEnvironment(func(name string) string { return env[name] })
	require.NoError(t, err)
	c, err := catalog.Load(cfg.CatalogPath)
	require.NoError(t, err)
	a, err := app.Start(t.Context(), cfg, c, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return a, &testdrive.Broker{URL: fmt.Sprintf("http://127.0.0.1:%d", a.Port()), Username: testdrive.Username,
		Password: testdrive.Password}
}

// holdings are what a broker holds: of memory, the bytes that are in use; postgres and mysql are connections.
type holdings struct{ goroutines, files, memory, postgres, mysql int }

// witness counts a broker's connections where they end. It has one to each server itself, which it does not count.
type witness struct {
	postgres *pgx.Conn
	mysql    *sql.DB
}

func newWitness(t *testing.T, s servers.MySQL, postgresURL string) witness {
	postgres, err := pgx.Connect(t.Context(), postgresURL)
	require.NoError(t, err)
	t.Cleanup(func() { postgres.Close(context.Background()) })
	mysql := s.Admin(t)
	mysql.SetMaxOpenConns(1)
	require.NoError(t, mysql.Ping())
	return witness{postgres, mysql}
}

// count counts what a broker in this process holds.
func (w witness) count(t *testing.T) (h holdings) {
	require.NoError(t, w.postgres.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'mysql-broker'`).Scan(&h.postgres))
	require.NoError(t, w.mysql.QueryRow("SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'mysql_broker'").
		Scan(&h.mysql))
	h.goroutines, h.files = runtime.NumGoroutine(), openFiles(t)
	return h
}

// watch counts connections each second until what keeps the broker busy has ended.
func (w witness) watch(t *testing.T, ended <-chan error) {
	for {
		select {
		case err := <-ended:
			require.NoError(t, err)
			return
		case <-time.After(time.Second):
			w.count(t).expectFewConnections(t)
		}
	}
}

func (h holdings) expectFewConnections(t *testing.T) {
	assert.True(t, h.postgres <= postgresConnections && h.mysql <= mysqlConnections,
		"more connections than the broker may hold: %+v", h)
}

// settled counts when nothing has ended for a second: it takes moments until clients that went away are noticed.
func (w witness) settled(t *testing.T) (h holdings) {
	since := time.Now()
	testdrive.Eventually(t, "the broker settles", func() bool {
		now := w.count(t)
		if now.goroutines < h.goroutines || now.files < h.files {
			since = time.Now()
		}
		h = now
		return time.Since(since) > time.Second
	})
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	h.memory = int(memory.HeapAlloc)
	return h
}

func openFiles(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

const (
	idleInstances   = 100
	createdAtOnce   = 20 // more than the broker has connections for
	idleConnections = 5
	idleTime        = 30 * time.Second
	// idleTransactions is how many there may be in idleTime, when all that is done once a minute falls into it.
	idleTransactions = 120
)

// A broker with many instances and nothing to do hardly uses PostgreSQL, and has closed the connections that it needed
// when it had much to do.
func TestIdleBrokerIsIdle(t *testing.T) {
	env := testdrive.Environment(t, servers.Chosen(t, servers.AllMySQL(t))[0])
	postgres, err := pgx.Connect(t.Context(), servers.Postgres(t)) // its own transactions must not count
	require.NoError(t, err)
	defer postgres.Close(t.Context())
	cfg, err := pgx.ParseConfig(env["DATABASE_URL"])
	require.NoError(t, err)
	count := func(sql string) (n int) {
		require.NoError(t, postgres.QueryRow(t.Context(), sql, cfg.Database).Scan(&n))
		return n
	}
	connections := func() int { return count("SELECT count(*) FROM pg_stat_activity WHERE datname = $1") }
	transactions := func() int {
		return count("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1")
	}

	a, broker := start(t, env)
	defer a.Close()
	n := newTenant(t, broker, "shared-small", new(atomic.Int64))
	var creating errgroup.Group
	creating.SetLimit(createdAtOnce)
	for range idleInstances {
		creating.Go(func() error { return n.ask(http.StatusCreated, n.plan.Provision(uuid.NewString())) })
	}
	require.NoError(t, creating.Wait())
	busy := connections()
	testdrive.Within(t, 2*limits.Stuck, "unused connections are closed",
		func() bool { return connections() <= idleConnections })
	before := transactions()
	time.Sleep(idleTime) // nothing happens that could be waited for
	done := transactions() - before
	t.Logf("%d connections after the broker was busy; then %d transactions in %v", busy, done, idleTime)
	assert.LessOrEqual(t, done, idleTransactions, "transactions in %v", idleTime)
	assert.True(t, busy > idleConnections, "the broker had only %d connections when it was busy", busy)
}
