//go:build faults

package stage

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner"
	"mysql-broker/provisioner/backup/objectstore"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/retained"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
	"mysql-broker/test/audit"
	"mysql-broker/test/limits"
	"mysql-broker/test/platform"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// pollEach is how often the platform of the stage asks.
const pollEach = 20 * time.Millisecond

// machines is how many dedicated servers there can be at once: one that lends itself to bindings, one that an operation
// works on, and one to which its data move.
const machines = 3

// scene is a platform with one broker at a time.
type scene struct {
	*platform.World
	*play
	shared  *machine
	records *store.Store // for what operators do
	now     *broker
	host    audit.Instance // a dedicated instance that lends itself to bindings

	passed, killed, paused int // points, and brokers
}

func newScene(t *testing.T, flavour string, number int) *scene {
	t.Helper()
	s := &scene{shared: asMachine(t, testdrive.Private(t, flavour)),
		play: &play{name: fmt.Sprintf("%s %d", flavour, number), servers: newPlayedServers(t, flavour)}}
	env := testdrive.Environment(t, s.shared.MySQL)
	env["LAUNCHER"], env["QUOTA_INTERVAL"] = "none", "1h"
	oldest, newest := s.servers.versions[0].Version, s.servers.versions[1].Version
	env["CATALOG"] = testdrive.CatalogWith(t, testdrive.RetainingCatalog(t, "shared-small", "dedicated-small"),
		"dedicated-small", fmt.Sprintf("version: %q", oldest))
	s.objects = objectstore.OpenDirectory(t.TempDir())
	var err error
	s.config, err = config.FromEnvironment(func(name string) string { return env[name] })
	require.NoError(t, err)
	// On each connection of an heir, PostgreSQL plans each statement again: once is enough.
	s.config.PostgresURL = with(t, with(t, env["DATABASE_URL"], "pool_max_conns", "3"), "plan_cache_mode", "force_generic_plan")
	tasks := testdrive.OpenTasks(t, map[string]string{"DATABASE_URL": with(t, env["DATABASE_URL"], "application_name", "stage")})
	asStage := func(cfg *pgxpool.Config) { cfg.ConnConfig.RuntimeParams["application_name"] = "stage" }
	s.World = &platform.World{Tasks: tasks.Pool, Later: newest, PollEach: pollEach,
		Send: func(method, path string, body any) (testdrive.Response, error) {
			return s.now.send(method, path, body)
		},
		Audit: audit.World{Records: audit.OpenRecords(t, env["DATABASE_URL"], env["ENCRYPTION_KEYSET"], asStage), Shared: s.shared.admin,
			Launchers: map[string]audit.Inspector{launcherName: s.servers}, Plans: testdrive.Plans(t), Objects: s.objects}}
	s.now, err = s.start() // which makes the schema
	require.NoError(t, err)
	s.records, err = store.Open(t.Context(), env["DATABASE_URL"], s.config.Keys, asStage)
	require.NoError(t, err)
	t.Cleanup(s.records.Close)
	t.Cleanup(func() {
		if t.Failed() {
			s.now.showLog(t)
		}
		s.close(s.now)
		s.closing.Wait()
	})
	s.host.ID = "host"
	require.NoError(t, s.Make(platform.NamedPlan(t, "dedicated-small"), false, &s.host))
	return s
}

// with adds a parameter to a URL.
func with(t *testing.T, text, name, value string) string {
	u, err := url.Parse(text)
	require.NoError(t, err)
	query := u.Query()
	query.Set(name, value)
	u.RawQuery = query.Encode()
	return u.String()
}

var numbers = regexp.MustCompile(`^\d+\.\d+\.\d+`)

// newPlayedServers starts the machines of dedicated servers. A server that is upgraded says that it has a version after
// that of the machines.
func newPlayedServers(t *testing.T, flavour string) *playedServers {
	p := &playedServers{flavour: flavour, servers: map[string]*playedServer{}, notes: map[string][]byte{}}
	for range machines {
		p.machines = append(p.machines, startMachine(t, flavour))
	}
	version, err := audit.Column(t.Context(), p.machines[0].admin, "SELECT VERSION()")
	require.NoError(t, err)
	present := numbers.FindString(version[0])
	p.versions = []launcher.Version{{Flavour: flavour, Version: present}, {Flavour: flavour, Version: servers.Next(present)}}
	return p
}

// inherit replaces the broker, which was killed. All its connections have ended then, though it has closed none.
func (s *scene) inherit(t *testing.T) {
	dead := s.now
	require.NoError(t, s.awaitSilence(t.Context()), "after %s was killed", dead.name)
	s.expireLeases(t)
	heir, err := s.start()
	require.NoError(t, err)
	s.now = heir
	s.bury(dead)
}

// expireLeases has the leases of a broker run out that was killed or is paused: on tasks, and on what one broker does at
// intervals for all.
func (s *scene) expireLeases(t *testing.T) {
	testdrive.ExpireLeases(t, s.Tasks)
	_, err := s.Tasks.Exec(t.Context(), "UPDATE leader_lease SET until = now(), pause = '0'")
	require.NoError(t, err)
}

// awaitSilence returns when no server has a connection from a broker.
func (s *scene) awaitSilence(ctx context.Context) error {
	for deadline := time.Now().Add(limits.Stuck / 24); ; time.Sleep(5 * time.Millisecond) {
		open, err := s.connections(ctx)
		switch {
		case err != nil:
			return err
		case len(open) == 0:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("these connections are open: %q", open)
		}
	}
}

// connections lists those of brokers, and of accounts that brokers made.
func (s *scene) connections(ctx context.Context) ([]string, error) {
	rows, err := s.Tasks.Query(ctx, `SELECT 'PostgreSQL: ' || query FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend' AND application_name <> 'stage'`)
	if err != nil {
		return nil, err
	}
	open, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	for _, m := range append([]*machine{s.shared}, s.servers.machines...) {
		sessions, err := m.sessions(ctx, "CONCAT_WS(' ', user, command, state, info)")
		if err != nil {
			return nil, err
		}
		open = append(open, sessions...)
	}
	return open, nil
}

// carryOut sends a request, and does what a platform does when there is no response because the broker was killed: it
// polls on, asks again or, if mitigate is true, asks for the opposite.
func (s *scene) carryOut(t *testing.T, x *platform.Target, mitigate bool) error {
	s.Lost = func() bool {
		killed := s.now.alive.Err() != nil
		if killed {
			s.inherit(t)
		}
		return killed
	}
	defer func() { s.Lost = nil }()
	q := x.Request()
	r, err := s.now.send(q.Method, q.Path, q.Body)
	switch {
	case err != nil && s.Lost():
		return s.finish(t, x, mitigate)
	case err != nil:
		return err
	}
	return s.ConcludeAndLearn(x, q, r)
}

// finish does what a platform does that got no response.
func (s *scene) finish(t *testing.T, x *platform.Target, mitigate bool) error {
	q := x.Request()
	if instead, possible := x.Mitigation(); mitigate && possible {
		q = instead
	} else if mitigate && x.Kind == platform.Update {
		s.awaitEnd(t)
		return s.LearnUpdate(x)
	}
	return s.RunAndLearn(x, q)
}

// stopAfterFailure ends a test that has failed, with what the brokers have logged: what is left would fail all others.
func (s *scene) stopAfterFailure(t *testing.T, victim *broker) {
	t.Helper()
	if !t.Failed() {
		return
	}
	victim.showLog(t)
	if s.now != victim {
		s.now.showLog(t)
	}
	t.FailNow()
}

// clear deletes what an operation has left, also what is kept of a deleted instance.
func (s *scene) clear(t *testing.T, x *platform.Target) {
	t.Helper()
	assert.NoError(t, s.Clear(x, s.host), "%s", x)
	if !x.Keep {
		return
	}
	kept, err := s.Tasks.Query(t.Context(), "SELECT id FROM retained WHERE adopted_by IS NULL")
	require.NoError(t, err)
	ids, err := pgx.CollectRows(kept, pgx.RowTo[string])
	for _, id := range ids {
		err = errors.Join(err, s.records.Retained.Expire(t.Context(), id))
	}
	kind := retained.PurgeRetained
	if _, running := task.RunNow(t.Context(), s.records, kind, provisioner.TaskKinds()[kind]); err != nil || running != nil {
		t.Errorf("purge what is retained of %s: %v", x, errors.Join(err, running))
	}
	s.awaitEnd(t)
}

// awaitEnd returns when no task is in progress. Those that wait for their next attempt go on at once, and those of a
// broker that is killed with its heir.
func (s *scene) awaitEnd(t *testing.T) {
	s.survive(t, "no task is in progress", func() bool {
		left, err := s.hasten(t.Context())
		return err == nil && left == 0
	})
}

// hasten has tasks that wait for their next attempt go on at once. It returns how many are in progress.
func (s *scene) hasten(ctx context.Context) (left int64, err error) {
	all, err := s.Tasks.Exec(ctx, `UPDATE task SET run_at = CASE WHEN lease_owner IS NULL THEN now() ELSE run_at END
		WHERE state = 'in progress'`)
	return all.RowsAffected(), err
}
