package operators

import (
	"context"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// An instance that was reported gone must not exist later. The commit of a PUT hangs, because PostgreSQL waits for a
// standby that does not exist; meanwhile the platform deletes the instance.
func TestFaultDeleteDuringHangingCommit(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	private := testdrive.Private(t, s.Flavour)
	pg := testdrive.StartPostgres(t)
	env := testdrive.Environment(t, private)
	env["DATABASE_URL"] = pg.URL
	brokers := []testdrive.Platform{testdrive.StartPlatform(t, private, env), testdrive.StartPlatform(t, private, env)}
	records := testdrive.OpenTasks(t, env)
	for n, plan := range []string{"shared-small", "shared-async"} {
		t.Run(plan, func(t *testing.T) {
			deleteDuringHangingCommit(t, records, brokers[0], brokers[n], plan)
		})
	}
	expectNoOrphans(t, records)
	testdrive.ExpectTenants(t, brokers[0].Admin(t), 0, 0)
}

func deleteDuringHangingCommit(t *testing.T, records testdrive.Tasks, asked, other testdrive.Platform, plan string) {
	i := asked.OwnInstance(t, plan)
	end := hangCommits(t, records)
	made := i.Begin("PUT", i.Path()+modeOf(plan), i.ProvisionBody(nil))
	awaitHangingCommit(t, records)
	changed := i.Via(other).Begin("PATCH", i.Path()+testdrive.Async, i.With(nil))
	gone := i.Via(other).Deprovision(t, testdrive.Async)
	if gone.Status != http.StatusServiceUnavailable {
		t.Errorf("a deletion that nobody can record yet is answered %d %s", gone.Status, gone.Raw)
	}
	if r := testdrive.Receive(t, changed, "the answer to the update"); r.Status == http.StatusNotFound {
		t.Errorf("an update of what is being recorded is answered %d %s", r.Status, r.Raw)
	}
	end()
	testdrive.Receive(t, made, "the answer to the provision")
	insistOnDeletion(t, i.Via(other))
	i.Fetch(t).Expect(t, http.StatusNotFound)
	i.Provision(t, testdrive.Async, nil) // the id can be used again
	insistOnDeletion(t, i)
}

// hangCommits has PostgreSQL keep each commit waiting for a standby that is not there, until end.
func hangCommits(t *testing.T, ts testdrive.Tasks) (end func()) {
	t.Helper()
	set := func(ctx context.Context, names string) error {
		_, err := ts.Pool.Exec(ctx, "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'")
		if err == nil {
			_, err = ts.Pool.Exec(ctx, "SELECT pg_reload_conf()")
		}
		return err
	}
	if err := set(t.Context(), "nobody"); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		if err := set(context.Background(), ""); err != nil {
			t.Errorf("let PostgreSQL commit: %v", err)
		}
	})
	t.Cleanup(end)
	// PostgreSQL accepts a new connection only after it has told all others of the setting.
	testdrive.Eventually(t, limits.Stuck, "PostgreSQL waits for a standby", func() bool {
		conn, err := pgx.ConnectConfig(t.Context(), ts.Pool.Config().ConnConfig)
		if err != nil {
			return false
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		var names string
		err = conn.QueryRow(t.Context(), "SHOW synchronous_standby_names").Scan(&names)
		return err == nil && names == "nobody"
	})
	return end
}

// awaitHangingCommit waits until a commit of the brokers' that writes an instance hangs.
func awaitHangingCommit(t *testing.T, ts testdrive.Tasks) {
	t.Helper()
	testdrive.Eventually(t, limits.Stuck, "a commit hangs", func() bool {
		var hanging bool
		ts.Scan(t, &hanging, `SELECT EXISTS (SELECT FROM pg_stat_activity JOIN pg_locks l USING (pid)
			WHERE application_name = 'mysql-broker' AND wait_event = 'SyncRep'
				AND l.relation = 'instance'::regclass AND l.mode = 'RowExclusiveLock')`)
		return hanging
	})
}

// insistOnDeletion repeats a deletion until the broker reports that the instance does not exist.
func insistOnDeletion(t *testing.T, i testdrive.Instance) {
	t.Helper()
	testdrive.Eventually(t, limits.Stuck, "the instance is deleted", func() bool {
		status := i.Deprovision(t, testdrive.Sync).Status
		return status == http.StatusOK || status == http.StatusGone
	})
}

// expectNoOrphans waits until nothing is in progress, and fails the test if an instance is there.
func expectNoOrphans(t *testing.T, ts testdrive.Tasks) {
	t.Helper()
	count := func(query string) (n int) {
		ts.Scan(t, &n, query)
		return n
	}
	testdrive.Eventually(t, limits.Stuck, "all tasks end", func() bool {
		return count("SELECT count(*) FROM task WHERE state = 'in progress'") == 0
	})
	if n := count("SELECT count(*) FROM instance"); n > 0 {
		t.Errorf("%d instances stayed after the platform was told that they are gone", n)
	}
}

// A broker's statements may reach PostgreSQL long after the platform has given up the request and deleted the instance
// through another broker.
func TestFaultProvisionThatReachesPostgresLate(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	private := testdrive.Private(t, s.Flavour)
	env := testdrive.Environment(t, private)
	other := testdrive.StartPlatform(t, private, env)
	records := testdrive.OpenTasks(t, env)
	network, through := testdrive.ProxyURL(t, env["DATABASE_URL"])
	env["DATABASE_URL"] = through
	slow := testdrive.StartPlatform(t, private, env)
	for _, deleted := range []int{http.StatusGone, http.StatusOK} {
		i := provisionTooLate(t, slow, network, func(i testdrive.Instance) {
			if deleted == http.StatusOK { // the late request repeats one that was carried out
				i.Via(other).Provision(t, testdrive.Sync, nil).Expect(t, http.StatusCreated)
			}
		})
		i.Via(other).Deprovision(t, testdrive.Sync).Expect(t, deleted)
		network.Release()
		testdrive.Eventually(t, limits.Stuck, "the broker reaches PostgreSQL", func() bool {
			return i.Do(t, "GET", "/readyz", nil).Status == http.StatusOK
		})
		awaitQuiet(t, records)
		i.Fetch(t).Expect(t, http.StatusNotFound)
		i.Provision(t, testdrive.Sync, nil).Expect(t, http.StatusCreated) // a newer request
		i.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)
	}
	expectNoOrphans(t, records)
}

// provisionTooLate sends a provision whose statements stay in the network to PostgreSQL, until the broker gives it up.
// before runs with the instance before the network is frozen.
func provisionTooLate(t *testing.T, p testdrive.Platform, network *testdrive.Proxy, before func(testdrive.Instance)) testdrive.Instance {
	t.Helper()
	for range 20 {
		i := p.OwnInstance(t, "shared-small")
		before(i)
		warm := p.MakeOwn(t, "shared-small")
		warm.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)
		network.Freeze()
		made := i.Begin("PUT", i.Path(), i.ProvisionBody(nil))
		r := testdrive.Receive(t, made, "the answer to the provision")
		if r.Status == http.StatusServiceUnavailable {
			testdrive.ExpectRefusal(t, r, http.StatusServiceUnavailable, "Try again")
			return i
		}
		// The broker had not used its connection for a second: it tried that out first, and then used another.
		if r.Status != http.StatusOK && r.Status != http.StatusCreated {
			t.Fatalf("the provision was answered with %d", r.Status)
		}
		network.Release()
		i.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)
	}
	t.Fatal("the broker tried out its connection each time")
	panic("not reached")
}

// awaitQuiet waits until PostgreSQL carries out nothing that brokers have sent to change instances, nor waits for it in
// a transaction.
func awaitQuiet(t *testing.T, ts testdrive.Tasks) {
	t.Helper()
	testdrive.Eventually(t, limits.Stuck, "PostgreSQL has carried out what it was sent", func() bool {
		var busy int
		ts.Scan(t, &busy, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'mysql-broker' AND state <> 'idle'`)
		return busy == 0
	})
}

// A paused broker reads a request long after its client has left and deleted the instance through another broker.
func TestFaultProvisionThatIsReadLate(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	private := testdrive.Private(t, s.Flavour)
	env := testdrive.Environment(t, private)
	paused, other := testdrive.StartPlatform(t, private, env), testdrive.StartPlatform(t, private, env)
	records := testdrive.OpenTasks(t, env)
	i := paused.OwnInstance(t, "shared-small")
	paused.Pause(t)
	resume := sync.OnceFunc(func() { paused.Signal(t, syscall.SIGCONT) })
	t.Cleanup(resume)
	conn, err := testdrive.SendProvision(i)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	time.Sleep(100 * time.Millisecond) // more than the kernel's clock may be wrong by
	i.Via(other).Deprovision(t, testdrive.Sync).Expect(t, http.StatusGone)
	resume()
	paused.AwaitLog(t, `"instance_id":"`+i.ID+`"`)
	expectNoOrphans(t, records)
	i.Fetch(t).Expect(t, http.StatusNotFound)
	i.Provision(t, testdrive.Sync, nil).Expect(t, http.StatusCreated)
	i.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)
}
