package process_test

import (
	"database/sql"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
)

// What tenants find on a new server, to which nobody but the admin can log in.
func TestNewServer(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		l := open(t, cfg)
		defer l.Close()
		spec := newSpec("one")
		end := launch(t, l, spec)
		db := connect(t, spec, end)
		if got := queryInt(t, db, "SELECT @@log_bin + @@local_infile"); got != 0 {
			t.Errorf("log_bin + local_infile = %d, want 0", got)
		}
		if got := queryInt(t, db, "SELECT @@character_set_server = 'utf8mb4'"); got != 1 {
			t.Error("default character set is not utf8mb4")
		}
		for _, user := range []string{"root", "", "mysql.sys", "mariadb.sys"} {
			intruder := launcher.Spec{AdminUser: user}
			err := openDB(t, intruder, end, nil).PingContext(t.Context())
			if refused := (*mysql.MySQLError)(nil); !errors.As(err, &refused) {
				t.Errorf("login as %q without a password: %v, want a refusal", user, err)
			}
		}
		accounts := "SELECT count(*) FROM mysql.user WHERE user NOT LIKE 'mysql.%' AND user <> 'mariadb.sys'"
		if n := queryInt(t, db, accounts); n != 1 {
			t.Errorf("%d accounts can log in, want the admin's alone", n)
		}
		if _, err := os.Stat(filepath.Join(cfg.Dir, "instances", spec.ID, "init.sql")); !os.IsNotExist(err) {
			t.Errorf("the file with the admin password is still there: %v", err)
		}
		expectNoFilesOutside(t, db)
		exec(t, db, "CREATE USER 'root'@'localhost'")
		if _, err := l.Launch(t.Context(), spec, ignore); err == nil {
			t.Error("launched again although root needs no password")
		}
	})
}

// expectNoFilesOutside expects that neither a table's options nor INTO OUTFILE write where the server's account may.
func expectNoFilesOutside(t *testing.T, db *sql.DB) {
	t.Helper()
	exec(t, db, "CREATE DATABASE app")
	outside, err := makeReachableDir()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(outside)
	if err := os.Chmod(outside, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"CREATE TABLE app.i (n INT) ENGINE=InnoDB DATA DIRECTORY='" + outside + "'",
		"CREATE TABLE app.d (n INT) ENGINE=MyISAM DATA DIRECTORY='" + outside + "'",
		"CREATE TABLE app.x (n INT, KEY (n)) ENGINE=MyISAM INDEX DIRECTORY='" + outside + "'",
		"SELECT 1 INTO OUTFILE '" + outside + "/o'",
	} {
		_, err := db.ExecContext(t.Context(), statement) // refused, or the directory is ignored
		if left, readErr := os.ReadDir(outside); readErr != nil || len(left) != 0 {
			t.Errorf("%s (%v) wrote %v (%v)", statement, err, left, readErr)
		}
	}
}

// A server's socket lies below the state directory, and its path may have 107 bytes.
func TestAwkwardStateDirectory(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		cfg.Dir = filepath.Join(cfg.Dir, strings.Repeat("long ", 25)+"#1")
		l := open(t, cfg)
		defer l.Close()
		spec := newSpec("deep")
		if err := connect(t, spec, launch(t, l, spec)).PingContext(t.Context()); err != nil {
			t.Error(err)
		}
		if err := l.Destroy(t.Context(), spec.ID); err != nil {
			t.Error(err)
		}
	})
}

func TestPortTakenByAStranger(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		stranger, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(cfg.PortMin)))
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Close()
		l := open(t, cfg)
		defer l.Close()
		if end := launch(t, l, newSpec("next")); end.Port != cfg.PortMin+1 {
			t.Errorf("port %d, want %d", end.Port, cfg.PortMin+1)
		}
	})
}

func TestLaunchManyAtOnce(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		l := open(t, newConfig(t, binary))
		defer l.Close()
		const many = 10
		ends := make(chan launcher.Endpoint, many)
		errs := make(chan error, many)
		for i := range many {
			go func() {
				end, err := l.Launch(t.Context(), newSpec("n"+strconv.Itoa(i)), ignore)
				ends <- end
				errs <- err
			}()
		}
		ports := map[int]bool{}
		for range many {
			ports[(<-ends).Port] = true
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if len(ports) != many {
			t.Errorf("%d servers share %d ports", many, len(ports))
		}
	})
}

// To users, no port is no room, and their task is given up; where none can be had for another reason, it is tried
// again.
func TestAddressThatTheHostDoesNotHave(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		cfg.BindAddress = "192.0.2.1" // for documentation, by RFC 5737
		l := open(t, cfg)
		defer l.Close()
		if _, err := l.Launch(t.Context(), newSpec("nowhere"), ignore); err == nil || errors.Is(err, launcher.ErrNoRoom) {
			t.Errorf("launch: %v", err)
		}
	})
}

// A state that cannot be read keeps no other server from being launched, and its own from being destroyed.
func TestUnreadableState(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		l := open(t, cfg)
		defer l.Close()
		broken := newSpec("broken")
		launch(t, l, broken)
		pid := pidOf(t, cfg, broken.ID)
		if err := os.WriteFile(filepath.Join(cfg.Dir, "instances", broken.ID, "state.json"), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		launch(t, l, newSpec("sound"))
		if err := l.Destroy(t.Context(), broken.ID); err != nil {
			t.Error(err)
		}
		if alive(pid) {
			t.Error("the server still runs")
		}
	})
}
