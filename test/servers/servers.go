// Package servers hands real servers to tests: a fresh PostgreSQL database, and a mysqld of every kind there is.
//
// Where tests run with -short, those that ask for a server are skipped.
//
// The command with-servers starts them once for many test binaries, which find them through the environment. Where it
// did not, a test binary whose TestMain is Main starts its own when they are first asked for. The mysqld to run are
// those installed, and those that $MYSQLD names.
package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Environment variables through which one run of servers serves several test binaries.
const (
	PostgresURLVar = "TEST_POSTGRES_URL"  // a superuser's URL; each test gets a database of its own
	MySQLVar       = "TEST_MYSQL_SERVERS" // a JSON array of MySQL
	SharedDirVar   = "TEST_SHARED_DIR"    // what SharedDir returns
	OnOneMySQLVar  = "TEST_ON_ONE_MYSQL"  // not empty: see Chosen
)

// own are the servers that this test binary started itself.
var own struct {
	mayStart atomic.Bool // Main will stop them
	fleet    Fleet
	lock     sync.Mutex // of fleet
}

// Main runs the tests, stops every server that was started for them, calls the functions in stop, and exits.
func Main(m *testing.M, stop ...func() error) {
	own.mayStart.Store(true)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		stopOwn(stop)
		os.Exit(1)
	}()
	code := m.Run()
	if !stopOwn(stop) {
		code = 1
	}
	os.Exit(code)
}

func stopOwn(more []func() error) (ok bool) {
	own.lock.Lock()
	defer own.lock.Unlock()
	err := own.fleet.Stop(context.Background())
	for _, stop := range more {
		err = errors.Join(err, stop())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stop the test servers:", err)
		return false
	}
	return true
}

// SharedDir is a directory for what all tests of a run can use and is slow to make. Servers of another user can enter it.
// Where with-servers did not start this test binary, it is the binary's own.
func SharedDir(t testing.TB) string {
	Needed(t)
	dir := os.Getenv(SharedDirVar)
	if dir == "" {
		withOwn(t, func(f *Fleet) error {
			err := f.makeDir()
			dir = f.dir
			return err
		})
	}
	return dir
}

// Needed skips a test with `go test -short`, which runs what needs no server.
func Needed(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a server, which -short leaves out")
	}
}

// withOwn gives access to this test binary's own servers.
func withOwn(t testing.TB, use func(*Fleet) error) {
	require.True(t, own.mayStart.Load(),
		"no servers: run this through test/servers/with-servers, or make servers.Main its TestMain")
	own.lock.Lock()
	defer own.lock.Unlock()
	require.NoError(t, use(&own.fleet))
}
