package process_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/test/testdrive"
)

// For a login without TLS, MySQL needs keys by which the password travels: those it was launched with or, if that was
// before there were any, its own.
func TestLoginWithoutTLS(t *testing.T) {
	eachServer(t, "plain", func(t *testing.T, s server) {
		loginWithoutTLS := func() {
			testdrive.Exec(t, s.db, "FLUSH PRIVILEGES") // MySQL forgets what spares a login the password
			assert.NoError(t, connectPlain(t, s.spec, s.end).PingContext(t.Context()), "log in")
		}
		loginWithoutTLS()

		require.NoError(t, s.l.StopAll(t.Context()))
		for _, name := range []string{"rsa-key.pem", "rsa.pem"} {
			err := os.Remove(filepath.Join(s.dir, "tls", name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // MariaDB has none
				t.Fatal(err)
			}
		}
		require.NoError(t, open(t, s.cfg).StartAll(t.Context()))
		loginWithoutTLS()
	})
}

// A new server knows time zones by their names. One that was made without them gets them.
func TestTimeZones(t *testing.T) {
	eachServer(t, "zones", func(t *testing.T, s server) {
		n := testdrive.Read[int64](t, s.db, "SELECT COUNT(*) FROM mysql.time_zone_name")
		assert.True(t, n >= 500, "the server has %d time zones", n)
		for _, table := range []string{"time_zone", "time_zone_name", "time_zone_transition", "time_zone_transition_type"} {
			testdrive.Exec(t, s.db, "DELETE FROM mysql."+table) // the server has not read them yet
		}
		admin, err := mysqladmin.Open(mysqladmin.Config{Name: "zones", Addr: s.end.AdminAddress(), ServerName: s.end.Host,
			User: s.spec.AdminUser, Password: s.spec.AdminPassword, CA: s.end.CACertificate, MaxConns: 2})
		require.NoError(t, err)
		defer admin.Close()
		for _, want := range []bool{false, true} {
			has, err := admin.Setup.HasTimeZones(t.Context())
			require.True(t, has == want && err == nil, "the server has time zones: %v, %v", has, err)
			require.NoError(t, admin.Setup.LoadTimeZones(t.Context()))
		}
		for _, name := range []string{"Europe/Zurich", "America/New_York", "US/Pacific", "Asia/Kolkata", "Australia/Lord_Howe",
			"America/Sao_Paulo", "Africa/Casablanca", "UTC", "Etc/GMT+5", "Asia/Kathmandu"} {
			location, err := time.LoadLocation(name)
			require.NoError(t, err)
			for at := time.Date(1970, 1, 2, 3, 4, 5, 0, time.UTC); at.Year() < 2037; at = at.AddDate(0, 0, 97) {
				text := at.Format(time.DateTime)
				got := testdrive.Read[string](t, s.db, fmt.Sprintf("SELECT CONVERT_TZ('%s', 'UTC', '%s')", text, name))
				assert.Equal(t, at.In(location).Format(time.DateTime), got, "%s in %s", text, name)
			}
		}
	})
}

// withExec lets the launcher log in to the server of that spec.
func withExec(t *testing.T, cfg *process.Config, spec launcher.Spec) {
	cfg.Exec = func(ctx context.Context, id string, e launcher.Endpoint, statement string) error {
		_, err := connect(t, spec, e).ExecContext(ctx, statement)
		return err
	}
}

// Two connections that load as fast as they can wait for each other at times, but never for good. A server whose log says
// that its redo log is full has that enlarged, for good.
func TestRedoLogSuffices(t *testing.T) {
	eachServer(t, "loaded", func(t *testing.T, s server) {
		if s.cfg.Binary.Flavour == mysqld.MariaDB { // which chooses the size at the start
			load(t, s.db, 128)
			return
		}
		capacity := func() int64 { return testdrive.Read[int64](t, s.db, "SELECT @@innodb_redo_log_capacity") }
		assert.GreaterOrEqual(t, capacity(), int64(64<<20))
		load(t, s.db, 512) // 1 GiB, as little more would have an old server hang

		s.l.Close()
		withExec(t, &s.cfg, s.spec)
		l := open(t, s.cfg)
		const small = 8 << 20
		testdrive.Exec(t, s.db, "DROP DATABASE app", "SET GLOBAL innodb_redo_log_capacity = 8388608")
		load(t, s.db, 64)
		testdrive.Eventually(t, "the full redo log is enlarged", func() bool { return capacity() > small })
		l.Close()
		assert.Contains(t, s.log.String(), "redo log of a server was full", "operators are not told")
		raised := capacity()
		require.NoError(t, l.StopAll(t.Context()))
		require.NoError(t, open(t, s.cfg).StartAll(t.Context()))
		assert.Equal(t, raised, capacity(), "bytes of the redo log after a restart")
	})
}

// load inserts that many rows of 1 MiB through each of two connections.
func load(t *testing.T, db *sql.DB, rows int) {
	testdrive.Exec(t, db, "CREATE DATABASE app", "CREATE TABLE app.t (id INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB)")
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	row := "INSERT INTO app.t (b) VALUES ('" + strings.Repeat(rand.Text(), 1<<20/26) + "')"
	var both errgroup.Group
	for range 2 {
		both.Go(func() error {
			session, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			defer session.Close()
			for n := 0; err == nil && n < rows; n++ {
				_, err = session.ExecContext(ctx, row)
			}
			return err
		})
	}
	require.NoError(t, both.Wait())
	assert.Equal(t, 2*rows, testdrive.Read[int](t, db, "SELECT count(*) FROM app.t"))
}
