package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// An instance that was reported gone must not exist later. The commit of a PUT hangs, because PostgreSQL waits for a
// standby that does not exist; meanwhile the platform deletes the instance.
func TestDeleteDuringHangingCommit(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		pg := testdrive.StartPostgres(t)
		env := testdrive.Environment(t, private)
		env["DATABASE_URL"] = pg.URL
		brokers := []platform{startPlatform(t, private, env), startPlatform(t, private, env)}
		records := openTasks(t, env)
		for n, plan := range []string{"shared-small", "shared-async"} {
			t.Run(plan, func(t *testing.T) {
				deleteDuringHangingCommit(t, records, brokers[0], brokers[n], plan)
			})
		}
		records.expectNoOrphans(t)
		expectTenants(t, brokers[0].admin(t), 0, 0)
	})
}

func deleteDuringHangingCommit(t *testing.T, records tasks, asked, other platform, plan string) {
	i := asked.ownInstance(t, plan)
	end := records.hangCommits(t)
	made := i.Begin("PUT", i.path()+modeOf(plan), i.provisionBody(nil))
	records.awaitHangingCommit(t)
	changed := i.via(other).Begin("PATCH", i.path()+later, i.with(nil))
	gone := i.via(other).deprovision(t, later)
	if gone.Status != http.StatusServiceUnavailable {
		t.Errorf("a deletion that nobody can record yet is answered %d %s", gone.Status, gone.Raw)
	}
	if r := testdrive.Receive(t, changed, "the answer to the update"); r.Status == http.StatusNotFound {
		t.Errorf("an update of what is being recorded is answered %d %s", r.Status, r.Raw)
	}
	end()
	testdrive.Receive(t, made, "the answer to the provision")
	i.via(other).insistOnDeletion(t)
	i.fetch(t).Expect(t, http.StatusNotFound)
	i.provision(t, later, nil) // the id can be used again
	i.insistOnDeletion(t)
}

// hangCommits has PostgreSQL keep each commit waiting for a standby that is not there, until end.
func (ts tasks) hangCommits(t *testing.T) (end func()) {
	t.Helper()
	set := func(ctx context.Context, names string) error {
		_, err := ts.pool.Exec(ctx, "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'")
		if err == nil {
			_, err = ts.pool.Exec(ctx, "SELECT pg_reload_conf()")
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
	testdrive.Eventually(t, testdrive.Patience, "PostgreSQL waits for a standby", func() bool {
		conn, err := pgx.ConnectConfig(t.Context(), ts.pool.Config().ConnConfig)
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
func (ts tasks) awaitHangingCommit(t *testing.T) {
	t.Helper()
	testdrive.Eventually(t, testdrive.Patience, "a commit hangs", func() bool {
		var hanging bool
		err := ts.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity JOIN pg_locks l USING (pid)
			WHERE application_name = 'mysql-broker' AND wait_event = 'SyncRep'
				AND l.relation = 'instance'::regclass AND l.mode = 'RowExclusiveLock')`).Scan(&hanging)
		return err == nil && hanging
	})
}

// insistOnDeletion repeats a deletion until the broker reports that the instance does not exist.
func (i instance) insistOnDeletion(t *testing.T) {
	t.Helper()
	if err := i.deleteUntilGone(); err != nil {
		t.Fatal(err)
	}
}

func (i instance) deleteUntilGone() error {
	for deadline := time.Now().Add(testdrive.Patience); ; time.Sleep(20 * time.Millisecond) {
		r, err := i.Send("DELETE", i.deletion(i.path(), now), nil, nil)
		switch {
		case err == nil && (r.Status == http.StatusOK || r.Status == http.StatusGone):
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%s is not deleted: %v, status %d %s", i.id, err, r.Status, r.Raw)
		case err != nil || r.Status == http.StatusUnprocessableEntity || r.Status == http.StatusServiceUnavailable:
		default:
			return fmt.Errorf("the deletion of %s is answered %d %s", i.id, r.Status, r.Raw)
		}
	}
}

// expectNoOrphans waits until nothing is in progress, and fails the test if an instance is there.
func (ts tasks) expectNoOrphans(t *testing.T) {
	t.Helper()
	count := func(pool *pgxpool.Pool, query string) (n int) {
		if err := pool.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	testdrive.Eventually(t, testdrive.Patience, "all tasks end", func() bool {
		return count(ts.pool, "SELECT count(*) FROM task WHERE state = 'in progress'") == 0
	})
	if n := count(ts.pool, "SELECT count(*) FROM instance"); n > 0 {
		t.Errorf("%d instances stayed after the platform was told that they are gone", n)
	}
}

// leavers are as many clients as leave in the middle of a PUT.
const leavers = 200

// Clients send a PUT, leave within 40 ms, and delete the instance through any replica. An instance that was reported
// gone must not exist later.
func TestClientsThatLeaveOwnNothing(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := testdrive.Environment(t, private)
		replicas := []platform{startPlatform(t, private, env), startPlatform(t, private, env)}
		var working sync.WaitGroup
		turns := make(chan struct{}, 10)
		for n := range leavers {
			turns <- struct{}{}
			i := replicas[n%2].ownInstance(t, "shared-small")
			working.Go(func() {
				defer func() { <-turns }()
				if err := i.provisionAndLeave(time.Duration(rand.IntN(40))*time.Millisecond, n%4 < 3); err != nil {
					t.Error(err)
				}
				if err := i.via(replicas[rand.IntN(2)]).deleteUntilGone(); err != nil {
					t.Error(err)
				}
			})
		}
		working.Wait()
		for _, r := range replicas { // until they have ended, requests that nobody waits for may be under way
			r.Signal(t, syscall.SIGTERM)
			r.Wait(t)
		}
		other := startPlatform(t, private, env) // which ends what they have begun
		openTasks(t, env).expectNoOrphans(t)
		expectTenants(t, other.admin(t), 0, 0)
	})
}

// provisionAndLeave sends a PUT, and closes the connection or resets it without reading a response.
func (i instance) provisionAndLeave(after time.Duration, reset bool) error {
	conn, err := i.sendProvision()
	if err != nil {
		return err
	}
	defer conn.Close()
	time.Sleep(after)
	if reset {
		return conn.SetLinger(0)
	}
	return nil
}

// sendProvision sends a PUT on a connection of its own.
func (i instance) sendProvision() (*net.TCPConn, error) {
	content, err := json.Marshal(i.provisionBody(nil))
	if err != nil {
		return nil, err
	}
	q, err := http.NewRequest("PUT", i.URL+i.path(), bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	q.SetBasicAuth(i.Username, i.Password)
	q.Header.Set("X-Broker-API-Version", "2.17")
	conn, err := net.Dial("tcp", strings.TrimPrefix(i.URL, "http://"))
	if err != nil {
		return nil, err
	}
	out := bufio.NewWriter(conn)
	if err := errors.Join(q.Write(out), out.Flush()); err != nil {
		conn.Close()
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// A broker's statements may reach PostgreSQL long after the platform has given up the request and deleted the instance
// through another broker.
func TestProvisionThatReachesPostgresLate(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := testdrive.Environment(t, private)
		other := startPlatform(t, private, env)
		records := openTasks(t, env)
		network, through := testdrive.ProxyURL(t, env["DATABASE_URL"])
		env["DATABASE_URL"] = through
		slow := startPlatform(t, private, env)
		for _, deleted := range []int{http.StatusGone, http.StatusOK} {
			i := slow.provisionTooLate(t, network, func(i instance) {
				if deleted == http.StatusOK { // the late request repeats one that was carried out
					i.via(other).provision(t, now, nil).Expect(t, http.StatusCreated)
				}
			})
			i.via(other).deprovision(t, now).Expect(t, deleted)
			network.Release()
			testdrive.Eventually(t, testdrive.Patience, "the broker reaches PostgreSQL", func() bool {
				return i.Do(t, "GET", "/readyz", nil).Status == http.StatusOK
			})
			records.awaitQuiet(t)
			i.fetch(t).Expect(t, http.StatusNotFound)
			i.provision(t, now, nil).Expect(t, http.StatusCreated) // a newer request
			i.deprovision(t, now).Expect(t, http.StatusOK)
		}
		records.expectNoOrphans(t)
	})
}

// provisionTooLate sends a provision whose statements stay in the network to PostgreSQL, until the broker gives it up.
// before runs with the instance before the network is frozen.
func (p platform) provisionTooLate(t *testing.T, network *testdrive.Proxy, before func(instance)) instance {
	t.Helper()
	for range 20 {
		i := p.ownInstance(t, "shared-small")
		before(i)
		warm := p.makeOwn(t, "shared-small")
		warm.deprovision(t, now).Expect(t, http.StatusOK)
		network.Freeze()
		made := i.Begin("PUT", i.path(), i.provisionBody(nil))
		r := testdrive.Receive(t, made, "the answer to the provision")
		if r.Status == http.StatusServiceUnavailable {
			expectRefusal(t, r, http.StatusServiceUnavailable, "Try again")
			return i
		}
		// The broker had not used its connection for a second: it tried that out first, and then used another.
		if r.Status != http.StatusOK && r.Status != http.StatusCreated {
			t.Fatalf("the provision was answered with %d", r.Status)
		}
		network.Release()
		i.deprovision(t, now).Expect(t, http.StatusOK)
	}
	t.Fatal("the broker tried out its connection each time")
	panic("not reached")
}

// awaitQuiet waits until PostgreSQL carries out nothing that brokers have sent to change instances, nor waits for it in
// a transaction.
func (ts tasks) awaitQuiet(t *testing.T) {
	t.Helper()
	testdrive.Eventually(t, testdrive.Patience, "PostgreSQL has carried out what it was sent", func() bool {
		var busy int
		err := ts.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'mysql-broker' AND state <> 'idle'`).Scan(&busy)
		return err == nil && busy == 0
	})
}

// A paused broker reads a request long after its client has left and deleted the instance through another broker.
func TestProvisionThatIsReadLate(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := testdrive.Environment(t, private)
		paused, other := startPlatform(t, private, env), startPlatform(t, private, env)
		records := openTasks(t, env)
		i := paused.ownInstance(t, "shared-small")
		paused.Pause(t)
		resume := sync.OnceFunc(func() { paused.Signal(t, syscall.SIGCONT) })
		t.Cleanup(resume)
		if err := i.provisionAndLeave(0, false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // more than the kernel's clock may be wrong by
		i.via(other).deprovision(t, now).Expect(t, http.StatusGone)
		resume()
		paused.AwaitLog(t, `"instance_id":"`+i.id+`"`)
		records.expectNoOrphans(t)
		i.fetch(t).Expect(t, http.StatusNotFound)
		i.provision(t, now, nil).Expect(t, http.StatusCreated)
		i.deprovision(t, now).Expect(t, http.StatusOK)
	})
}
