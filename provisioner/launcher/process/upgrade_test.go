package process_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process"
	"mysql-broker/test/servers"
)

// fillForUpgrade makes what an upgrade must keep, and an account with a password of its own.
func fillForUpgrade(t *testing.T, db *sql.DB, password string) {
	t.Helper()
	exec(t, db, "CREATE DATABASE app", "CREATE TABLE app.t (n INT PRIMARY KEY, s VARCHAR(20))",
		"INSERT INTO app.t VALUES (1, 'öne'), (2, NULL)", "CREATE VIEW app.v AS SELECT n FROM app.t",
		"CREATE FUNCTION app.f() RETURNS INT DETERMINISTIC RETURN 7",
		"CREATE TRIGGER app.tr BEFORE INSERT ON app.t FOR EACH ROW SET NEW.s = UPPER(NEW.s)",
		"CREATE EVENT app.e ON SCHEDULE EVERY 1 DAY DO DELETE FROM app.t WHERE n < 0",
		"CREATE USER tenant IDENTIFIED BY '"+password+"'", "GRANT SELECT, INSERT ON app.* TO tenant")
}

// checkUpgraded fails unless the server has that version, and all that fillForUpgrade made.
func checkUpgraded(t *testing.T, db *sql.DB, version string) {
	t.Helper()
	var runs, rows string
	if err := db.QueryRowContext(t.Context(), "SELECT VERSION(), GROUP_CONCAT(CONCAT_WS(' ', n, s) ORDER BY n) FROM app.t").
		Scan(&runs, &rows); err != nil || !strings.HasPrefix(runs, version) || rows != "1 öne,2" {
		t.Errorf("version %s, rows %q, error %v; want %s", runs, rows, err, version)
	}
	for query, want := range map[string]int64{"SELECT COUNT(*) FROM app.v": 2, "SELECT app.f()": 7,
		"SELECT COUNT(*) FROM information_schema.triggers WHERE trigger_schema = 'app'": 1,
		"SELECT COUNT(*) FROM information_schema.events WHERE event_schema = 'app'":     1} {
		if got := queryInt(t, db, query); got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
}

func TestUpgrade(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		old := open(t, cfg)
		spec, tenant := newSpec("riser"), newSpec("tenant")
		end := launch(t, old, spec)
		fillForUpgrade(t, connect(t, spec, end), tenant.AdminPassword)
		old.Close()

		cfg.Others = []mysqld.Binary{servers.Later(t, binary)}
		later := cfg.Others[0].Version
		l := open(t, cfg)
		defer l.Close()
		if all := l.Versions(); len(all) != 2 || all[0].Version != later {
			t.Errorf("offers %v", all)
		}
		checkUpgraded(t, connect(t, spec, end), binary.Version) // a later version alone changes nothing
		var said []string
		spec.Version = later
		began := time.Now()
		upgraded, err := l.Upgrade(t.Context(), spec, func(sentence string) { said = append(said, sentence) })
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s to %s: %v, %q", binary.Version, later, time.Since(began).Round(time.Millisecond), said)
		if upgraded.Port != end.Port || string(upgraded.CACertificate) != string(end.CACertificate) {
			t.Errorf("the endpoint changed to %v", upgraded)
		}
		db := connect(t, spec, upgraded)
		checkUpgraded(t, db, later)
		tenant.AdminUser = "tenant"
		exec(t, connect(t, tenant, upgraded), "INSERT INTO app.t VALUES (3, 'x')")
		pid := pidOf(t, cfg, spec.ID)
		if _, err := l.Upgrade(t.Context(), spec, ignore); err != nil || pidOf(t, cfg, spec.ID) != pid {
			t.Errorf("an upgrade to the same version: %v", err)
		}
		if _, err := os.Stat(filepath.Join(cfg.Dir, "instances", spec.ID, "before-upgrade")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the copy stays: %v", err)
		}

		spec.Version = binary.Version
		_, err = l.Upgrade(t.Context(), spec, ignore)
		if refused, ok := errors.AsType[*launcher.Error](err); !ok || refused.Action != launcher.GiveUp {
			t.Errorf("downgrade: %v", err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the killed server runs the later version again", func() bool {
			var version string
			err := db.QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&version)
			return !alive(pid) && err == nil && strings.HasPrefix(version, later)
		})
	})
}

// broken makes a program that prints a later version, and otherwise runs a script.
func broken(t *testing.T, b mysqld.Binary, script string) mysqld.Binary {
	t.Helper()
	dir, err := makeReachableDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	tree := filepath.Join(dir, "tree")
	if err := servers.LinkTree(b, tree); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(tree, "bin", filepath.Base(b.Path))
	later := servers.Renumbered(t, b)
	text := fmt.Sprintf("#!/bin/bash\nreal=%s\nif [ \"$2\" = --version ]; then exec \"$real\" \"$@\"; fi\n%s\n", later.Path,
		script)
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	program, err := mysqld.ReadBinary(path)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// A version that does not start, that is killed while it upgrades, or that loses an object: the server runs the former
// version on the data of before.
func TestUpgradeThatFails(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		old := open(t, cfg)
		spec := newSpec("faller")
		end := launch(t, old, spec)
		db := connect(t, spec, end)
		fillForUpgrade(t, db, "secret")
		old.Close()
		for name, script := range map[string]string{
			"does not start":     "echo '[ERROR] no such option' >&2; exit 1",
			"is killed":          `(while ! [ -S data/mysqld.sock ]; do sleep 0.01; done; kill -9 $$) & exec -a "$0" "$real" "$@"`,
			"is another version": "exec -a \"$0\" " + binary.Path + ` "$@"`,
		} {
			t.Run(name, func(t *testing.T) {
				cfg.Others = []mysqld.Binary{broken(t, binary, script)}
				l := open(t, cfg)
				defer l.Close()
				spec.Version = cfg.Others[0].Version
				_, err := l.Upgrade(t.Context(), spec, ignore)
				refused, ok := errors.AsType[*launcher.Error](err)
				if !ok || refused.Action != launcher.GiveUp || !strings.Contains(refused.Sentence, "could not be upgraded to") {
					t.Fatalf("error %v", err)
				}
				if err := db.PingContext(t.Context()); err == nil {
					t.Error("applications can connect before the data are back")
				}
				for range 2 { // the second one repeats a revert whose outcome was lost
					if _, err := l.Revert(t.Context(), spec, ignore); err != nil {
						t.Fatal(err)
					}
				}
				checkUpgraded(t, db, binary.Version)
			})
		}
	})
}

// An upgrade whose broker ends at some sentence continues, or is reverted.
func TestUpgradeInterrupted(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		old := open(t, cfg)
		old.Close()
		cfg.Others = []mysqld.Binary{servers.Renumbered(t, binary)}
		var all sync.WaitGroup
		for n, at := range []string{"Stopping", "Copying", "Upgrading", "Starting"} {
			for _, finish := range []string{"continue", "revert"} {
				all.Go(func() { interrupt(t, cfg, binary, at, finish, fmt.Sprintf("s%d_%s", n, finish)) })
			}
		}
		all.Wait()
	})
}

func interrupt(t *testing.T, cfg process.Config, binary mysqld.Binary, at, finish, id string) {
	l, err := process.Open(cfg)
	if err != nil {
		t.Error(err)
		return
	}
	spec := newSpec(id)
	spec.Version = binary.Version
	end, err := l.Launch(t.Context(), spec, ignore)
	if err != nil {
		t.Error(err)
		return
	}
	db := connect(t, spec, end)
	fillForUpgrade(t, db, "secret")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	later := cfg.Others[0].Version
	spec.Version = later
	if _, err := l.Upgrade(ctx, spec, func(sentence string) {
		if strings.HasPrefix(sentence, at) {
			cancel()
		}
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("%s: interrupted at %q: %v", id, at, err)
	}
	want := later
	if finish == "revert" {
		_, err = l.Revert(t.Context(), spec, ignore)
		if at != "Starting" { // then the upgrade has succeeded
			want = binary.Version
		}
	} else {
		_, err = l.Upgrade(t.Context(), spec, ignore)
	}
	if err != nil {
		t.Errorf("%s: %s: %v", id, finish, err)
	}
	checkUpgraded(t, db, want)
}
