package process_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// fillForUpgrade makes what an upgrade must keep, and an account with a password of its own.
func fillForUpgrade(t *testing.T, db *sql.DB, password string) {
	testdrive.Exec(t, db, "CREATE DATABASE app", "CREATE TABLE app.t (n INT PRIMARY KEY, s VARCHAR(20))",
		"INSERT INTO app.t VALUES (1, 'öne'), (2, NULL)", "CREATE VIEW app.v AS SELECT n FROM app.t",
		"CREATE FUNCTION app.f() RETURNS INT DETERMINISTIC RETURN 7",
		"CREATE TRIGGER app.tr BEFORE INSERT ON app.t FOR EACH ROW SET NEW.s = UPPER(NEW.s)",
		"CREATE EVENT app.e ON SCHEDULE EVERY 1 DAY DO DELETE FROM app.t WHERE n < 0",
		"CREATE USER tenant IDENTIFIED BY '"+password+"'", "GRANT SELECT, INSERT ON app.* TO tenant")
}

// checkUpgraded fails unless the server has that version, and all that fillForUpgrade made.
func checkUpgraded(t *testing.T, db *sql.DB, version string) {
	var runs, rows string
	err := db.QueryRowContext(t.Context(), "SELECT VERSION(), GROUP_CONCAT(CONCAT_WS(' ', n, s) ORDER BY n) FROM app.t").
		Scan(&runs, &rows)
	assert.True(t, err == nil && strings.HasPrefix(runs, version) && rows == "1 öne,2",
		"version %s, rows %q, error %v; want %s", runs, rows, err, version)
	for query, want := range map[string]int64{"SELECT COUNT(*) FROM app.v": 2, "SELECT app.f()": 7,
		"SELECT COUNT(*) FROM information_schema.triggers WHERE trigger_schema = 'app'": 1,
		"SELECT COUNT(*) FROM information_schema.events WHERE event_schema = 'app'":     1,
		"SELECT @@event_scheduler = 'ON'":                                               1} {
		assert.Equal(t, want, testdrive.Read[int64](t, db, query), query)
	}
}

func TestUpgrade(t *testing.T) {
	eachServer(t, "riser", func(t *testing.T, s server) {
		cfg, spec, db, tenant := s.cfg, s.spec, s.db, newSpec("tenant")
		fillForUpgrade(t, db, tenant.AdminPassword)
		testdrive.Exec(t, db, "CREATE DATABASE ticks", "CREATE TABLE ticks.t (offline INT)",
			"CREATE EVENT ticks.e ON SCHEDULE EVERY 1 SECOND DO INSERT INTO ticks.t VALUES (@@skip_networking)")
		s.l.Close()

		cfg.Others = []mysqld.Binary{servers.Later(t, cfg.Binary)}
		later := cfg.Others[0].Version
		l := open(t, cfg)
		all := l.Versions()
		assert.True(t, len(all) == 2 && all[0].Version == later, "offers %v", all)
		checkUpgraded(t, db, cfg.Binary.Version) // a later version alone changes nothing
		var said []string
		spec.Version = later
		began := time.Now()
		upgraded, err := l.Upgrade(t.Context(), spec, func(sentence string) { said = append(said, sentence) }, ignore)
		require.NoError(t, err)
		t.Logf("%s to %s: %v, %q", cfg.Binary.Version, later, time.Since(began).Round(time.Millisecond), said)
		assert.True(t, upgraded.Port == s.end.Port && string(upgraded.CACertificate) == string(s.end.CACertificate),
			"the endpoint changed to %v", upgraded)
		checkUpgraded(t, db, later)
		n := testdrive.Read[int64](t, db, "SELECT COUNT(*) FROM ticks.t WHERE offline")
		assert.True(t, n <= 0, "events ran %d times during the upgrade", n)
		testdrive.Exec(t, db, "DROP DATABASE ticks")
		tenant.AdminUser = "tenant"
		testdrive.Exec(t, connect(t, tenant, upgraded), "INSERT INTO app.t VALUES (3, 'x')")
		pid := pidOf(t, cfg, spec.ID)
		_, err = l.Upgrade(t.Context(), spec, ignore, ignore)
		assert.True(t, err == nil && pidOf(t, cfg, spec.ID) == pid, "an upgrade to the same version: %v", err)
		expectNoLeftovers(t, cfg, spec.ID)

		spec.Version = cfg.Binary.Version
		_, err = l.Upgrade(t.Context(), spec, ignore, ignore)
		refused, ok := errors.AsType[*launcher.Error](err)
		assert.True(t, ok && refused.Action == launcher.GiveUp, "downgrade: %v", err)
	})
}

// expectNoLeftovers fails if a server has files of an upgrade.
func expectNoLeftovers(t *testing.T, cfg process.Config, id string) {
	left, err := filepath.Glob(filepath.Join(cfg.Dir, "instances", id, "*upgrade*"))
	assert.True(t, err == nil && len(left) == 0, "%s: files of the upgrade stay: %v %v", id, left, err)
}

// broken makes a program that prints a later version, and otherwise runs a script. Beside it is sleeps.sql, which keeps a
// server from coming up.
func broken(t *testing.T, b mysqld.Binary, script string) mysqld.Binary {
	tree := filepath.Join(testdrive.LauncherDir(t), "tree")
	require.NoError(t, servers.LinkTree(b, tree))
	path := filepath.Join(tree, "bin", filepath.Base(b.Path))
	later := servers.Renumbered(t, b)
	text := fmt.Sprintf("#!/bin/bash\nreal=%s\nif [ \"$2\" = --version ]; then exec \"$real\" \"$@\"; fi\n%s\n", later.Path,
		script)
	require.NoError(t, servers.WriteProgram(path, []byte(text)))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), "sleeps.sql"), []byte("DO SLEEP(600);\n"), 0o644))
	program, err := mysqld.ReadBinary(path)
	require.NoError(t, err)
	return program
}

// A version that does not start, that is killed while it upgrades, or that is another one: the server runs the former
// version on the earlier data.
func TestUpgradeThatFails(t *testing.T) {
	eachServer(t, "faller", func(t *testing.T, s server) {
		cfg, spec, db, binary := s.cfg, s.spec, s.db, s.cfg.Binary
		fillForUpgrade(t, db, "secret")
		s.l.Close()
		for name, script := range map[string]string{
			"does not start": "echo '[ERROR] no such option' >&2; exit 1",
			"is killed": `sleeps=$(dirname "$0")/sleeps.sql; (while ! [ -S data/mysqld.sock ]; do sleep 0.01; done; kill -9 $$) &
				exec -a "$0" "$real" "$@" --init-file="$sleeps"`,
			"is another version": "exec -a \"$0\" " + binary.Path + ` "$@"`,
		} {
			t.Run(name, func(t *testing.T) {
				cfg.Others = []mysqld.Binary{broken(t, binary, script)}
				l := open(t, cfg)
				spec.Version = cfg.Others[0].Version
				_, err := l.Upgrade(t.Context(), spec, ignore, ignore)
				refused, ok := errors.AsType[*launcher.Error](err)
				require.True(t, ok && refused.Action == launcher.GiveUp &&
					strings.Contains(refused.Sentence, "could not be upgraded to"), "error %v", err)
				assert.Error(t, db.PingContext(t.Context()), "applications can connect before the data is back")
				for range 2 { // the second one repeats a revert whose outcome was lost
					_, err = l.Revert(t.Context(), spec, ignore, ignore)
					require.NoError(t, err)
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
		open(t, cfg).Close()
		cfg.Others = []mysqld.Binary{servers.Renumbered(t, binary)}
		for n, at := range []string{"Stopping", "Copying", "Upgrading", "Starting"} {
			finishes := []string{"continue", "revert"}
			if at == "Upgrading" {
				finishes = append(finishes, "continue after half a revert")
			}
			for m, finish := range finishes {
				t.Run(at+", "+finish, func(t *testing.T) {
					t.Parallel()
					interrupt(t, cfg, binary, at, finish, fmt.Sprintf("s%d_%d", n, m))
				})
			}
		}
	})
}

func interrupt(t *testing.T, cfg process.Config, binary mysqld.Binary, at, finish, id string) {
	l, err := process.Open(cfg)
	require.NoError(t, err)
	spec := newSpec(id)
	spec.Version = binary.Version
	db := connect(t, spec, launch(t, l, spec))
	fillForUpgrade(t, db, "secret")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	want := cfg.Others[0].Version
	spec.Version = want
	_, err = l.Upgrade(ctx, spec, func(sentence string) {
		if strings.HasPrefix(sentence, at) {
			cancel()
		}
	}, ignore)
	assert.ErrorIs(t, err, context.Canceled)
	dir := filepath.Join(cfg.Dir, "instances", id)
	// It is there if the broker is killed during mariadb-upgrade.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "upgrade.cnf"), []byte("secret"), 0o600))
	if finish == "continue after half a revert" { // the copy is back, and the phase not recorded
		data := filepath.Join(dir, "data")
		assert.NoError(t, errors.Join(os.RemoveAll(data), os.Rename(filepath.Join(dir, "before-upgrade"), data)))
	}
	if finish == "revert" {
		_, err = l.Revert(t.Context(), spec, ignore, ignore)
		if at != "Starting" { // then the upgrade has succeeded
			want = binary.Version
		}
	} else {
		_, err = l.Upgrade(t.Context(), spec, ignore, ignore)
	}
	assert.NoError(t, err)
	expectNoLeftovers(t, cfg, id)
	checkUpgraded(t, db, want)
}
