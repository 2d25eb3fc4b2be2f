package ha

import (
	"context"
	"database/sql"
	"strings"
	"syscall"
	"testing"
	"time"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A primary of MySQL on which a statement waits that changes an account lets nobody log in, while the others take it for
// a member like any other. MySQL 9.7.4 gets there by itself sometimes, after all members were killed. Here, the
// statement waits for a secondary. The launcher ends the primary, and applications go on with another one.
func TestSilentPrimary(t *testing.T) {
	t.Parallel()
	for _, s := range servers.AllMySQL(t) {
		if s.Flavour != mysqld.MySQL {
			continue
		}
		w := newGroupWorld(t, s)
		primary := w.awaitComplete(t, "at first")
		pid := w.pid(primary)
		locked, err := w.openMember((primary + 1) % 3)
		if err != nil {
			t.Fatal(err)
		}
		defer locked.Close()
		locked.SetMaxOpenConns(1)
		if _, err := locked.Exec("LOCK INSTANCE FOR BACKUP"); err != nil {
			t.Fatal(err)
		}
		if err := w.on(w.app.Hosts[primary], func(ctx context.Context, db *sql.DB) error {
			db.SetMaxOpenConns(1)
			if _, err := db.ExecContext(ctx, "SET SESSION group_replication_consistency = 'AFTER'"); err != nil {
				t.Fatal(err)
			}
			_, err := db.ExecContext(ctx, "ALTER USER USER() IDENTIFIED BY '"+w.app.Password+"'")
			return err
		}); err == nil || !strings.Contains(err.Error(), "deadline") {
			t.Fatalf("the statement does not wait: %v", err)
		}
		began := time.Now()
		if _, _, err := w.look(primary); err == nil {
			t.Fatal("the primary lets the launcher log in")
		}
		testdrive.Eventually(t, patience, "the primary is ended", func() bool { return w.pid(primary) != pid })
		ended := time.Since(began)
		locked.Close()
		written := w.count.Load()
		testdrive.Eventually(t, patience, "rows are written", func() bool { return w.count.Load() > written+20 })
		t.Logf("ended after %.1f s, rows are written after %.1f s", ended.Seconds(), time.Since(began).Seconds())
		w.awaitComplete(t, "after it was ended")
		w.compare(t)
	}
}

// A secondary of MySQL that hangs is started again, and gets what it has missed.
func TestHungSecondary(t *testing.T) {
	t.Parallel()
	for _, s := range servers.AllMySQL(t) {
		if s.Flavour != mysqld.MySQL {
			continue
		}
		w := newGroupWorld(t, s)
		secondary := (w.awaitComplete(t, "at first") + 1) % 3
		pid := w.pid(secondary)
		w.signal(t, secondary, syscall.SIGSTOP)
		began := time.Now()
		testdrive.Eventually(t, patience, "the secondary is ended", func() bool { return w.pid(secondary) != pid })
		t.Logf("ended after %.1f s", time.Since(began).Seconds())
		w.awaitComplete(t, "after it was ended")
		w.compare(t)
	}
}
