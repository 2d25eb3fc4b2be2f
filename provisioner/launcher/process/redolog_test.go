package process_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process"
	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

// withExec lets the launcher log in to the server of that spec.
func withExec(t *testing.T, cfg *process.Config, spec launcher.Spec) {
	cfg.Exec = func(ctx context.Context, id string, e launcher.Endpoint, statement string) error {
		_, err := connect(t, spec, e).ExecContext(ctx, statement)
		return err
	}
}

// Two connections that load as fast as they can wait for each other at times, but never for good.
func TestRedoLogSuffices(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		l := open(t, newConfig(t, binary))
		spec := newSpec("loaded")
		db := connect(t, spec, launch(t, l, spec))
		if binary.Flavour == mysqld.MySQL {
			got := testdrive.Read[int64](t, db, "SELECT @@innodb_redo_log_capacity")
			assert.True(t, got >= 64<<20, "the redo log has %d bytes", got)
		}
		rows := 128
		if binary.Flavour == mysqld.MySQL {
			rows = 512 // 1 GiB, as little more would have an old server hang
		}
		load(t, db, rows)
	})
}

// load inserts that many rows of 1 MiB through each of two connections.
func load(t *testing.T, db *sql.DB, rows int) {
	t.Helper()
	testdrive.Exec(t, db, "CREATE DATABASE app", "CREATE TABLE app.t (id INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB)")
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	row := "INSERT INTO app.t (b) VALUES ('" + strings.Repeat(rand.Text(), 1<<20/26) + "')"
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			session, err := db.Conn(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			defer session.Close()
			for n := range rows {
				if _, err := session.ExecContext(ctx, row); err != nil {
					t.Errorf("row %d: %v", n, err)
					return
				}
			}
		})
	}
	both.Wait()
	got := testdrive.Read[int64](t, db, "SELECT count(*) FROM app.t")
	assert.Equal(t, int64(2*rows), got, "there are %d rows, want %d", got, 2*rows)
}

// A server that was started with a small redo log has it enlarged by a broker that knows better, and again when its log
// says that this is full; then for good.
func TestRedoLogIsRaised(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		spec := newSpec("narrow")
		withExec(t, &cfg, spec)
		l := open(t, cfg)
		end := launch(t, l, spec)
		l.Close()
		if binary.Flavour == mysqld.MariaDB { // whose size is chosen at the start, and suffices: TestRedoLogSuffices
			return
		}
		db := connect(t, spec, end)
		const small = 8 << 20
		testdrive.Exec(t, db, "SET GLOBAL innodb_redo_log_capacity = 8388608")
		dir := filepath.Join(cfg.Dir, "instances", spec.ID)
		settings, err := os.ReadFile(filepath.Join(dir, "mysqld.cnf"))
		require.NoError(t, err)
		old := strings.Replace(string(settings), "redo-log-capacity=64M", "redo-log-capacity=8M", 1)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "mysqld.cnf"), []byte(old), 0o644))
		logged := warnings(&cfg)
		l = open(t, cfg)
		capacity := func() int64 { return testdrive.Read[int64](t, db, "SELECT @@innodb_redo_log_capacity") }
		testdrive.Eventually(t, limits.Stuck, "the broker that adopts the server enlarges its redo log", func() bool {
			return capacity() == 64<<20
		})

		testdrive.Exec(t, db, "SET GLOBAL innodb_redo_log_capacity = 8388608")
		load(t, db, 64)
		testdrive.Eventually(t, limits.Stuck, "the full redo log is enlarged", func() bool { return capacity() > small })
		l.Close()
		assert.Contains(t, logged.String(), "redo log of a server was full", "operators are not told")
		raised := capacity()
		require.NoError(t, l.StopAll(t.Context()))
		l = open(t, cfg)
		require.NoError(t, l.StartAll(t.Context()))
		db = connect(t, spec, end)
		got := capacity()
		assert.Equal(t, raised, got, "after a restart, the redo log has %d bytes, had %d", got, raised)
	})
}
