package operators

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Operators replace the keyset's key. How brokers with the keysets of two steps read what either writes, package store
// tests.
func TestRotateKeyset(t *testing.T) {
	t.Parallel()
	all := servers.AllMySQL(t)
	server := all[len(all)-1]
	env := testdrive.Environment(t, server)
	backups := t.TempDir()
	env["BACKUP_STORE"] = "file://" + backups
	start := func(keyset string) testdrive.Platform {
		env["ENCRYPTION_KEYSET"] = keyset
		return testdrive.StartPlatform(t, server, env)
	}
	change := func(keyset string, step ...string) string {
		out := testdrive.Run(t, map[string]string{"ENCRYPTION_KEYSET": keyset}, append([]string{"keyset"}, step...)...).Expect(t, 0)
		return strings.TrimSpace(out.Stdout)
	}
	old := env["ENCRYPTION_KEYSET"]
	added := change(old, "add")
	promoted := change(added, "promote")
	dropped := change(promoted, "drop-old", "--force")

	p := start(old)
	i, d := p.MakeOwn(t, "shared-small"), p.MakeOwn(t, "dedicated-small")
	b, known := d.Bound(t, nil)
	_, c := i.Bound(t, nil)
	testdrive.Exec(t, c.Open(t), "CREATE TABLE kept (id INT PRIMARY KEY)")
	was := testdrive.Contents(t, c)
	id := i.BackedUp(t) // with the old key
	manifest := filepath.Join(backups, i.ID, id, "manifest.json")
	p.Kill(t)

	env["ENCRYPTION_KEYSET"] = dropped
	assert.Contains(t, testdrive.Run(t, env, "serve").Expect(t, 78).Stderr, "ENCRYPTION_KEYSET: the keyset lacks the key ")
	dropOld := func(status int, says string) {
		out := testdrive.Run(t, env, "keyset", "drop-old").Expect(t, status)
		assert.False(t, !strings.Contains(out.Stderr, says) || status == 0 && strings.TrimSpace(out.Stdout) != dropped,
			"drop-old printed %q", out.Stderr)
	}
	env["ENCRYPTION_KEYSET"] = promoted
	dropOld(1, "without the old keys, the keyset lacks the key ")
	// While the bucket lacks the backup, its key stays the old one.
	require.NoError(t, os.Rename(manifest, manifest+".away"))
	// The CA's key, the admin password, and two bindings.
	out := testdrive.Run(t, env, "rotate-keys").Expect(t, 1)
	assert.True(t, strings.Contains(out.Stderr, "before this failed: 4") && strings.Contains(out.Stderr, id),
		"rotate-keys printed %q", out.Stderr)
	dropOld(1, id)
	require.NoError(t, os.Rename(manifest+".away", manifest))
	dropOld(1, id)
	assert.Equal(t, "Passwords encrypted again: 0.\nKeys of backups encrypted again: 1.\n",
		testdrive.Run(t, env, "rotate-keys").Expect(t, 0).Stdout)
	dropOld(0, "")

	last := start(dropped)
	i, b.Instance = i.Via(last), d.Via(last)
	assert.True(t, last.Credentials(t, b.Fetch(t).Expect(t, 200)) == known, "the credentials changed")
	b.Instance.Bound(t, nil) // as the server's administrator
	testdrive.Exec(t, c.Open(t), "DROP TABLE kept")
	i.Await(t, i.Update(t, testdrive.Async, body{"parameters": body{"restore_backup": id, "confirm": i.ID}}).Operation(t))
	testdrive.ExpectContents(t, "after a restore with the new key alone", c, was)
	i.Remove(t)
	b.Instance.Remove(t)
}

// recorded is the instance as it is in PostgreSQL, decrypted.
func recorded(t *testing.T, env map[string]string, id string) store.Instance {
	i, err := openStore(t, env).Instances.Get(t.Context(), id)
	require.NoError(t, err)
	return i
}

func openStore(t *testing.T, env map[string]string) *store.Store {
	return servers.OpenStoreWith(t, env["DATABASE_URL"], env["ENCRYPTION_KEYSET"])
}

// adminOf is a login as the broker's account on a dedicated server that c is a binding of.
func adminOf(t *testing.T, c testdrive.Credentials, password string) *mysql.Config {
	return c.Login(t, "broker_admin", password, net.JoinHostPort(c.Host, strconv.Itoa(c.Port)), "")
}

// bindOverAndOver binds and unbinds until stop is called, or the test ends, all of which must succeed. A request is
// repeated that was refused as concurrent after all of the 4 seconds that a broker waits for others to end, as it may have
// to on a busy machine.
func bindOverAndOver(t *testing.T, i testdrive.Instance, fields func() body) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	send := func(method, path string, body any, want int) {
		for deadline := time.Now().Add(limits.Stuck); ; {
			since := time.Now()
			r, err := i.Send(method, path, body, nil)
			if r.String("error") == "ConcurrencyError" && time.Since(since) >= 4*time.Second && time.Now().Before(deadline) {
				continue
			}
			assert.True(t, err == nil && r.Status == want, "%s: %d %s %v", method, r.Status, r.Raw, err)
			return
		}
	}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for ctx.Err() == nil {
				b := i.NewBinding()
				send("PUT", b.Path(), b.With(fields()), http.StatusCreated)
				send("DELETE", b.Deletion(b.Path(), testdrive.Sync), nil, http.StatusOK)
			}
		})
	}
	stop = func() {
		cancel()
		all.Wait()
	}
	t.Cleanup(stop)
	return stop
}

func TestRotateAdminPasswords(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		p, env := testdrive.PlatformOn(t, s)
		i := p.Provisioned(t, "dedicated-small", nil)
		_, c := i.Bound(t, nil)
		before := recorded(t, env, i.ID).AdminPassword

		stop := bindOverAndOver(t, i, func() body { return nil })
		seen := map[string]bool{before: true}
		for n := range 3 {
			if n == 2 { // the last rotation has died, and the server may know the next password or not
				require.NoError(t, openStore(t, env).InTx(t.Context(), func(tx *store.Tx) error {
					return tx.SetNextAdminPassword(i.ID, "the-next-password")
				}))
			}
			var out testdrive.Output // on a busy machine, binds and unbinds may take longer than the command waits for them
			testdrive.Eventually(t, "the binds and unbinds under way end", func() bool {
				out = testdrive.RotateAdmin(t, env)
				return !strings.Contains(out.Stderr, "binds and unbinds do not end")
			})
			assert.True(t, out.Expect(t, 0).Stdout == "Admin passwords changed: 1.\n", "printed %q", out.Stdout)
			seen[recorded(t, env, i.ID).AdminPassword] = true
		}
		stop()

		after := recorded(t, env, i.ID)
		assert.True(t, len(seen) == 4 && after.NextAdminPassword == "" && after.AdminPassword == "the-next-password",
			"%d passwords were recorded, and %d bytes of a next one", len(seen), len(after.NextAdminPassword))
		for password := range seen {
			p.Seen.Add(password)
			if password == after.AdminPassword {
				testdrive.Open(t, adminOf(t, c, password))
			} else {
				testdrive.ExpectRefused(t, adminOf(t, c, password))
			}
		}
		i.Await(t, i.UpdatePlan(t, testdrive.Async, "dedicated-large").Operation(t))
		c.Open(t)

		shared := p.Provisioned(t, "shared-small", nil)
		for id, want := range map[string]string{shared.ID: "on a shared server", "no-such-instance": "no service instance"} {
			out := testdrive.RotateAdmin(t, env, id).Expect(t, 1)
			assert.Contains(t, out.Stderr, want, "for %s", id)
			assert.Empty(t, p.Operator(env).Audit(t, "--action", "rotate-admin-password", "--instance", id),
				"what was refused is recorded")
		}
		entries := p.Operator(env).Audit(t, "--instance", i.ID, "--action", "rotate-admin-password")
		assert.True(t, len(entries) >= 3, "the audit has %+v", entries)
		expectBusyIsLeft(t, p, env, i)
		env["LAUNCHER"] = "none"
		out := testdrive.RotateAdmin(t, env).Expect(t, 78)
		assert.Contains(t, out.Stderr, "LAUNCHER is none", "without a launcher")
	})
}

// expectBusyIsLeft expects a rotation to leave an instance with an operation in progress as it is.
func expectBusyIsLeft(t *testing.T, p testdrive.Platform, env map[string]string, ready testdrive.Instance) {
	t.Helper()
	before := recorded(t, env, ready.ID).AdminPassword
	busy := p.OwnInstance(t, "dedicated-small")
	release := p.HoldLaunches(t)
	operation := busy.BeginProvision(t)
	out := testdrive.RotateAdmin(t, env).Expect(t, 1)
	assert.Contains(t, out.Stdout, "Admin passwords changed: 1.")
	testdrive.ExpectLine(t, out.Stderr, busy.ID, "in progress")
	assert.NotContains(t, out.Stderr, ready.ID)
	assert.True(t, recorded(t, env, ready.ID).AdminPassword != before && recorded(t, env, busy.ID).NextAdminPassword == "",
		"not just the instance that was ready has another password")
	release()
	busy.Await(t, operation)
	busy.Remove(t)
}

// A broker with a different keyset does not start, even before anything is stored.
func TestForeignKeyset(t *testing.T) {
	first, env := testdrive.OnePlatform(t)
	own := env["ENCRYPTION_KEYSET"]
	foreign, err := store.NewKeyset()
	require.NoError(t, err)
	env["ENCRYPTION_KEYSET"] = foreign
	for _, command := range []string{"serve", "doctor", "rotate-keys", "rotate-admin-passwords"} {
		out := testdrive.Run(t, env, command).Expect(t, 78)
		assert.Contains(t, out.Stderr, "ENCRYPTION_KEYSET: this is not the keyset that the first broker", command)
	}
	first.Kill(t)
	testdrive.Run(t, env, "serve").Expect(t, 78)
	env["ENCRYPTION_KEYSET"] = own
	testdrive.StartPlatform(t, servers.MySQL{}, env).Kill(t)

	// What the runbook says of a keyset that is lost before anything was made.
	testdrive.OpenTasks(t, env).Exec(t, "DELETE FROM secret WHERE name = 'keyset'; DELETE FROM authority")
	env["ENCRYPTION_KEYSET"] = foreign
	testdrive.StartPlatform(t, servers.MySQL{}, env)
}

// rotatedBinding is a row of `mysql-broker rotate-bindings --json`.
type rotatedBinding struct {
	InstanceID string `json:"instance_id"`
	ID, Result string
	AppGUID    string `json:"app_guid"`
}

// After a leak, the old credentials give no access. That what accounts have defined keeps working, and who gets the new
// password if a broker is killed, package stage tests.
func TestRotateBindings(t *testing.T) {
	p, env := testdrive.PrivatePlatform(t)
	o := p.Operator(env)
	i, other := p.OwnInstance(t, "shared-small"), p.OwnInstance(t, "shared-small")
	for _, x := range []testdrive.Instance{i, other} {
		x.Provision(t, testdrive.Sync, nil).Expect(t, http.StatusCreated)
	}
	app := body{"bind_resource": body{"app_guid": "an-app"}}
	b, c := i.Bound(t, app)
	_, keyLogin := i.Bound(t, nil)
	shared := body{"bind_resource": body{"space_guid": "a-space-that-leaked"}}
	_, untouched := other.Bound(t, shared)
	busy := c.Open(t)
	ended := make(chan error, 1)
	go func() {
		_, err := busy.ExecContext(t.Context(), "SELECT SLEEP(600)")
		ended <- err
	}()
	testdrive.AwaitTrue(t, p.Admin(t), `SELECT EXISTS (SELECT 1 FROM information_schema.processlist
		WHERE user = ? AND info LIKE 'SELECT SLEEP%')`, c.Username)

	rotate := func(args ...string) (all []rotatedBinding) {
		o.Read(t, &all, append([]string{"rotate-bindings"}, args...)...)
		return all
	}
	shown := rotate("--instance", i.ID)
	for _, args := range [][]string{{"--space", "no-such-space"}, {"--instance", i.ID, "--created-before", "1d"}} {
		assert.Empty(t, rotate(args...), "%q", args)
	}
	for space, want := range map[string]int{"a-space": 3, "a-space-that-leaked": 1} {
		assert.Len(t, rotate("--space", space), want, "of %s", space)
	}
	assert.Len(t, rotate("--server", "shared-1"), 3)
	assert.Len(t, shown, 2)
	assert.Contains(t, shown, rotatedBinding{InstanceID: i.ID, ID: b.BindingID, AppGUID: "an-app"})
	o.Refuse(t, "instance", "rotate-bindings")
	o.Refuse(t, "no service instance", "rotate-bindings", "--instance", "missing", "--apply")
	c.Open(t)
	for _, r := range rotate("--instance", i.ID, "--apply") {
		assert.True(t, r.Result == "changed" && r.InstanceID == i.ID, "%+v", r)
	}
	assert.Error(t, testdrive.Receive(t, ended, "the running query ends"), "the running query went on to its end")
	testdrive.ExpectRefused(t, c.Fields(t))
	testdrive.ExpectRefused(t, keyLogin.Fields(t))
	untouched.Open(t)
	next := i.Credentials(t, b.Fetch(t).Expect(t, http.StatusOK))
	again := i.Credentials(t, b.Bind(t, app).Expect(t, http.StatusOK))
	assert.True(t, again == next && next.Username == c.Username && next.Password != c.Password,
		"the repeated bind has other credentials than the fetched binding, or another account")

	next.Open(t)
	got := o.Audit(t, "--action", "rotate", "--since", time.Now().Add(-time.Hour).Format(time.RFC3339))
	assert.True(t, len(got) == 2 && got[0].Platform == "operator" && got[0].Result == "succeeded",
		"the audit has %+v", got)
}
