package soak

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

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
		t.Helper()
		require.NoError(t, postgres.QueryRow(t.Context(), sql, cfg.Database).Scan(&n))
		return n
	}
	connections := func() int { return count("SELECT count(*) FROM pg_stat_activity WHERE datname = $1") }
	transactions := func() int {
		return count("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1")
	}

	a, broker := start(t, env)
	defer a.Close()
	createInstances(t, broker)
	busy := connections()
	testdrive.Eventually(t, 2*limits.Stuck, "unused connections are closed",
		func() bool { return connections() <= idleConnections })
	before := transactions()
	time.Sleep(idleTime) // nothing happens that could be waited for
	n := transactions() - before
	t.Logf("%d connections after the broker was busy; then %d transactions in %v", busy, n, idleTime)
	assert.True(t, n <= idleTransactions, "%d transactions in %v, want at most %d", n, idleTime, idleTransactions)
	assert.True(t, busy > idleConnections, "the broker had only %d connections when it was busy", busy)
}

func createInstances(t *testing.T, broker *testdrive.Broker) {
	t.Helper()
	n := newTenant(t, broker, "shared-small", new(atomic.Int64))
	var creating errgroup.Group
	creating.SetLimit(createdAtOnce)
	for range idleInstances {
		creating.Go(func() error { return n.ask(http.StatusCreated, n.plan.Provision(uuid.NewString())) })
	}
	require.NoError(t, creating.Wait())
}
