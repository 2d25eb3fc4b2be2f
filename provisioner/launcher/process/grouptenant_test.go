package process_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"mysql-broker/provisioner/launcher/mysqld"
)

// Applications do to a group what would fill the disk of the host, or make the members' data differ.
func TestGroupWithstandsApplications(t *testing.T) {
	t.Parallel()
	for _, binary := range binaries() {
		t.Run(binary.Flavour, func(t *testing.T) {
			t.Parallel()
			cfg := newConfig(t, binary)
			if binary.Flavour == mysqld.MariaDB {
				cfg.Settings = []string{"wsrep_sst_donor=member-1,"}
			}
			l := open(t, cfg)
			defer l.Close()
			spec := newSpec("trio")
			spec.MemoryMB, spec.StorageMB, spec.Members, spec.Version = 512, 64, 3, binary.Version
			g := &groupClients{spec: spec, end: launch(t, l, spec)}
			if binary.Flavour == mysqld.MySQL {
				keepsConnections(t, g)
				limitsLogs(t, cfg.Dir, g)
				return
			}
			refusesOtherEngines(t, g)
			endsLocks(t, g)
			runsEventsOnce(t, cfg.Dir, g)
		})
	}
}

func memberPID(t *testing.T, members string, n int) int {
	t.Helper()
	pid, err := strconv.Atoi(readFile(t, filepath.Join(members, strconv.Itoa(n), "data", "mysqld.pid")))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// keepsConnections expects that administrators can log in while applications take all connections that they get.
func keepsConnections(t *testing.T, g *groupClients) {
	password := rand.Text()
	g.on(t, g.end.Members[0], func(_ context.Context, admin *sql.DB) error {
		exec(t, admin, "CREATE USER greedy IDENTIFIED BY '"+password+"'")
		var most int
		if err := admin.QueryRow("SELECT @@GLOBAL.max_connections").Scan(&most); err != nil {
			return err
		}
		db := g.open(t, g.end.Members[0], "greedy", password)
		defer db.Close()
		db.SetMaxOpenConns(0)
		taken := 0
		for {
			conn, err := db.Conn(t.Context())
			if err == nil {
				defer conn.Close()
				_, err = conn.ExecContext(t.Context(), "DO 1")
			}
			if err != nil {
				break
			}
			taken++
		}
		if taken < most-10 || taken > most-4 {
			t.Errorf("applications got %d of %d connections", taken, most)
		}
		for range 3 {
			more := g.open(t, g.end.Members[0], g.spec.AdminUser, g.spec.AdminPassword)
			defer more.Close()
			if err := more.Ping(); err != nil {
				t.Errorf("an administrator cannot log in: %v", err)
			}
		}
		exec(t, admin, "DROP USER greedy")
		return nil
	})
}

// endsLocks locks a table on a member while another one writes to it, and then while another session alters it. It expects
// that accounts can be made.
func endsLocks(t *testing.T, g *groupClients) {
	g.on(t, g.end.Members[0], func(ctx context.Context, db *sql.DB) error {
		exec(t, db, "CREATE TABLE app.locked (n INT PRIMARY KEY)", "LOCK TABLES app.locked WRITE")
		g.on(t, g.end.Members[1], func(_ context.Context, other *sql.DB) error {
			exec(t, other, "INSERT INTO app.locked VALUES (1)", "CREATE USER late", "DROP USER late")
			return nil
		})
		var n int
		if err := db.QueryRow("SELECT COUNT(*) FROM app.locked").Scan(&n); err != nil { // in another session
			return err
		}
		locking, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer locking.Close()
		if _, err := locking.ExecContext(ctx, "LOCK TABLES app.locked WRITE"); err != nil {
			return err
		}
		g.on(t, g.end.Members[0], func(_ context.Context, other *sql.DB) error {
			exec(t, other, "ALTER TABLE app.locked ADD COLUMN v INT", "CREATE USER late", "DROP USER late")
			return nil
		})
		return nil
	})
}

// limitsLogs changes a row until there is more of binary logs than a member may keep, while another member hangs. That
// one then gets a copy of all data, because what it has missed is in no log any more.
func limitsLogs(t *testing.T, dir string, g *groupClients) {
	members := filepath.Join(dir, "instances", g.spec.ID, "members")
	hung := memberPID(t, members, 3)
	if err := syscall.Kill(hung, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(hung, syscall.SIGCONT) }) // it may have ended
	online := func(db *sql.DB) (n int) {
		_ = db.QueryRow(`SELECT COUNT(*) FROM performance_schema.replication_group_members
			WHERE member_state = 'ONLINE'`).Scan(&n)
		return n
	}
	g.on(t, g.end.Members[0], func(_ context.Context, db *sql.DB) error {
		eventually(t, "the group goes on without the member that hangs", func() bool { return online(db) == 2 })
		exec(t, db, "CREATE DATABASE app", "CREATE TABLE app.t (n INT PRIMARY KEY, v LONGTEXT)", "INSERT INTO app.t VALUES (1, '')")
		for n := range 12 {
			exec(t, db, fmt.Sprintf("UPDATE app.t SET v = REPEAT('%c', 8388608)", 'a'+n))
		}
		return nil
	})
	for n := 1; n <= 2; n++ {
		eventually(t, "few binary logs", func() bool {
			logs, err := filepath.Glob(filepath.Join(members, strconv.Itoa(n), "data", "binlog.[0-9]*"))
			if err != nil || len(logs) == 0 {
				t.Fatalf("no binary logs: %v", err)
			}
			size := int64(0)
			for _, log := range logs {
				if info, err := os.Stat(log); err == nil { // it may have been deleted
					size += info.Size()
				}
			}
			return size <= 64<<20
		})
	}
	if err := syscall.Kill(hung, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	g.on(t, g.end.Members[0], func(_ context.Context, db *sql.DB) error {
		eventually(t, "three members again", func() bool { return online(db) == 3 })
		return nil
	})
	g.on(t, g.end.Members[2], func(_ context.Context, db *sql.DB) error {
		var v string
		if err := db.QueryRow("SELECT LEFT(v, 1) FROM app.t").Scan(&v); err != nil || v != "l" {
			t.Errorf("the member that hung has %q, %v; want what was written last", v, err)
		}
		return nil
	})
}

// refusesOtherEngines expects that no table is made whose rows would stay on one member.
func refusesOtherEngines(t *testing.T, g *groupClients) {
	g.on(t, g.end.Members[0], func(ctx context.Context, db *sql.DB) error {
		exec(t, db, "CREATE DATABASE app", "CREATE TABLE app.t (n INT PRIMARY KEY)")
		for _, engine := range []string{"Aria", "MyISAM", "MEMORY"} {
			for _, statement := range []string{"CREATE TABLE app.other (n INT PRIMARY KEY)", "ALTER TABLE app.t",
				"CREATE TABLE app.other (n INT PRIMARY KEY) PARTITION BY HASH (n) PARTITIONS 2"} {
				if _, err := db.ExecContext(ctx, statement+" ENGINE="+engine); err == nil {
					t.Errorf("%s is not refused", statement+" ENGINE="+engine)
				}
			}
		}
		return nil
	})
}

// runsEventsOnce deletes the files of a member, which then gets all data from one that runs an event.
func runsEventsOnce(t *testing.T, dir string, g *groupClients) {
	members := filepath.Join(dir, "instances", g.spec.ID, "members")
	g.on(t, g.end.Members[0], func(_ context.Context, db *sql.DB) error {
		exec(t, db, "CREATE TABLE app.runs (id BIGINT AUTO_INCREMENT PRIMARY KEY, port INT)",
			"CREATE EVENT app.`it``s` ON SCHEDULE EVERY 1 SECOND DO INSERT INTO app.runs (port) VALUES (@@port)")
		before := memberPID(t, members, 2)
		if err := os.Rename(filepath.Join(members, "2"), filepath.Join(t.TempDir(), "member")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "another process for the member", func() bool {
			text, err := os.ReadFile(filepath.Join(members, "2", "data", "mysqld.pid"))
			return err == nil && string(text) != fmt.Sprintln(before)
		})
		eventually(t, "three members again", func() bool {
			var name string
			var online int
			err := db.QueryRow("SHOW STATUS LIKE 'wsrep_cluster_size'").Scan(&name, &online)
			return err == nil && online == 3
		})
		return nil
	})
	g.on(t, g.end.Members[1], func(_ context.Context, db *sql.DB) error {
		var status string
		eventually(t, "the member that is new", func() bool {
			return db.QueryRow("SELECT status FROM information_schema.events WHERE event_schema = 'app'").Scan(&status) == nil
		})
		if status != "SLAVESIDE_DISABLED" {
			t.Errorf("the event of another member is %s", status)
		}
		return nil
	})
	g.on(t, g.end.Members[0], func(_ context.Context, db *sql.DB) error {
		run := func() (n int) {
			if err := db.QueryRow("SELECT COUNT(*) FROM app.runs").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := run()
		eventually(t, "the event runs on", func() bool { return run() > before+2 })
		var ports int
		if err := db.QueryRow("SELECT COUNT(DISTINCT port) FROM app.runs").Scan(&ports); err != nil || ports != 1 {
			t.Errorf("the event ran on %d members, %v", ports, err)
		}
		return nil
	})
}
