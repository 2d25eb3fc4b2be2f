package process_test

import (
	"database/sql"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/testdrive"
)

// What tenants find on a new server, to which nobody but the admin can log in.
func TestNewServer(t *testing.T) {
	eachServer(t, "one", func(t *testing.T, s server) {
		expectSmall(t, s.cfg.Binary, filepath.Join(s.dir, "data"))
		assert.EqualValues(t, 0, testdrive.Read[int64](t, s.db, "SELECT @@log_bin + @@local_infile"), "log_bin + local_infile =")
		assert.EqualValues(t, 1, testdrive.Read[int64](t, s.db, "SELECT @@character_set_server = 'utf8mb4'"),
			"default character set is not utf8mb4")
		for _, user := range []string{"root", "", "mysql.sys", "mariadb.sys"} {
			err := connectPlain(t, launcher.Spec{AdminUser: user}, s.end).PingContext(t.Context())
			refused := (*mysql.MySQLError)(nil)
			assert.True(t, errors.As(err, &refused), "login as %q without a password: %v, want a refusal", user, err)
		}
		accounts := "SELECT count(*) FROM mysql.user WHERE user NOT LIKE 'mysql.%' AND user <> 'mariadb.sys'"
		n := testdrive.Read[int64](t, s.db, accounts)
		assert.EqualValues(t, 1, n, "%d accounts can log in, want the admin's alone", n)
		assert.NoFileExists(t, filepath.Join(s.dir, "init.sql"), "the file with the admin password is still there")
		expectNoFilesOutside(t, s.db)
		testdrive.Exec(t, s.db, "CREATE USER 'root'@'localhost'")
		_, err := s.l.Launch(t.Context(), s.spec, ignore)
		assert.Error(t, err, "launched again although root needs no password")
	})
}

// expectSmall expects that a server which does nothing takes up no more disk than what it has written, but for its redo
// log, which is there.
func expectSmall(t *testing.T, binary mysqld.Binary, data string) {
	redo, wantRedo, most := "ib_logfile0", int64(4<<20), int64(20<<20)
	if binary.Flavour == mysqld.MySQL {
		redo, wantRedo, most = "#innodb_redo", 60<<20, 104<<20
	}
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(data, &fs))
	if binary.Flavour == mysqld.MariaDB && fs.Type == unix.TMPFS_MAGIC {
		wantRedo = 1 // it maps its log there, which takes up what was written
	}
	got := allocated(t, filepath.Join(data, redo))
	assert.True(t, got >= wantRedo, "%d bytes are allocated to the redo log, want %d", got, wantRedo)
	got = allocated(t, data)
	assert.True(t, got <= most, "%d bytes are allocated to an empty server, want at most %d", got, most)
}

// allocated is the space that the files of a directory, or one file, take up on the disk.
func allocated(t *testing.T, path string) (bytes int64) {
	err := filepath.WalkDir(path, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	require.NoError(t, err)
	return bytes
}

// expectNoFilesOutside expects that neither a table's options nor INTO OUTFILE write where the server's account may.
func expectNoFilesOutside(t *testing.T, db *sql.DB) {
	testdrive.Exec(t, db, "CREATE DATABASE app")
	outside := testdrive.LauncherDir(t)
	require.NoError(t, os.Chmod(outside, 0o777))
	for _, statement := range []string{
		"CREATE TABLE app.i (n INT) ENGINE=InnoDB DATA DIRECTORY='" + outside + "'",
		"CREATE TABLE app.d (n INT) ENGINE=MyISAM DATA DIRECTORY='" + outside + "'",
		"CREATE TABLE app.x (n INT, KEY (n)) ENGINE=MyISAM INDEX DIRECTORY='" + outside + "'",
		"SELECT 1 INTO OUTFILE '" + outside + "/o'",
	} {
		_, err := db.ExecContext(t.Context(), statement) // refused, or the directory is ignored
		left, readErr := os.ReadDir(outside)
		assert.True(t, readErr == nil && len(left) == 0, "%s (%v) wrote %v (%v)", statement, err, left, readErr)
	}
}

// While a server starts for the first time, only its user can read the admin password.
func TestPasswordOfTheFirstStart(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		modes := map[os.FileMode]bool{}
		_, err := open(t, cfg).Launch(t.Context(), newSpec("one"), func(string) {
			if info, err := os.Stat(filepath.Join(cfg.Dir, "instances/one/init.sql")); err == nil {
				modes[info.Mode()] = true
			}
		})
		require.NoError(t, err)
		assert.Equal(t, map[os.FileMode]bool{0o600: true}, modes)
	})
}

// A server's socket lies below the state directory, and its path may have 107 bytes.
func TestAwkwardStateDirectory(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		cfg.Dir = filepath.Join(cfg.Dir, strings.Repeat("long ", 25)+"#1")
		l := open(t, cfg)
		spec := newSpec("deep")
		assert.NoError(t, connect(t, spec, launch(t, l, spec)).PingContext(t.Context()))
		assert.NoError(t, l.Destroy(t.Context(), spec.ID))
	})
}

// Servers that are launched at once have ports of their own, and none that a stranger has.
func TestLaunchManyAtOnce(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		stranger, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(cfg.PortMin)))
		require.NoError(t, err)
		defer stranger.Close()
		l := open(t, cfg)
		const many = 10
		var got, want [many]int
		var launching errgroup.Group
		for n := range many {
			want[n] = cfg.PortMin + 1 + n
			launching.Go(func() error {
				end, err := l.Launch(t.Context(), newSpec("n"+strconv.Itoa(n)), ignore)
				got[n] = end.Port
				return err
			})
		}
		require.NoError(t, launching.Wait())
		assert.ElementsMatch(t, want, got)
	})
}

// To users, no port is no room, and their task is given up; where none can be had for another reason, it is tried
// again.
func TestAddressThatTheHostDoesNotHave(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		cfg.BindAddress = "192.0.2.1" // for documentation, by RFC 5737
		l := open(t, cfg)
		_, err := l.Launch(t.Context(), newSpec("nowhere"), ignore)
		assert.False(t, err == nil || errors.Is(err, launcher.ErrNoRoom), "launch: %v", err)
	})
}

// A state that cannot be read keeps no other server from being launched, and its own from being destroyed.
func TestUnreadableState(t *testing.T) {
	eachServer(t, "broken", func(t *testing.T, s server) {
		pid := s.pid(t)
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, "state.json"), []byte("{"), 0o600))
		launch(t, s.l, newSpec("sound"))
		assert.NoError(t, s.l.Destroy(t.Context(), s.spec.ID))
		assert.False(t, alive(pid), "the server still runs")
	})
}
