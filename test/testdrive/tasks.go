package testdrive

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
)

// Tasks is the task table in the brokers' PostgreSQL database.
type Tasks struct{ Pool *pgxpool.Pool }

func OpenTasks(t *testing.T, env map[string]string) Tasks {
	pool, err := pgxpool.New(t.Context(), env["DATABASE_URL"])
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return Tasks{pool}
}

func (ts Tasks) Exec(t *testing.T, statement string, args ...any) {
	_, err := ts.Pool.Exec(t.Context(), statement, args...)
	require.NoError(t, err)
}

// Latest returns the newest task of an instance. epoch grows with every worker that takes it.
func (ts Tasks) Latest(t *testing.T, instanceID string) (epoch int, state string) {
	err := ts.Pool.QueryRow(t.Context(), `SELECT epoch, state FROM task
		WHERE instance_id = $1 AND binding_id = '' ORDER BY id DESC LIMIT 1`, instanceID).Scan(&epoch, &state)
	require.NoError(t, err)
	return epoch, state
}

// AwaitTakeover waits until a worker has the task that is not the one of epoch last.
func (ts Tasks) AwaitTakeover(t *testing.T, instanceID string, last int) {
	Eventually(t, "another worker takes over", func() bool {
		epoch, _ := ts.Latest(t, instanceID)
		return epoch > last
	})
}

// Await waits until an SQL condition on a task's columns holds. It asks PostgreSQL, because a process of the broker's
// command for each question takes a hundred times as long.
func (ts Tasks) Await(t *testing.T, task, what, condition string) {
	Within(t, undoTime, task+" "+what, func() (holds bool) {
		ts.Scan(t, &holds, "SELECT "+condition+" FROM task WHERE 'task_' || id = '"+task+"'")
		return holds
	})
}

// AwaitSuccess waits until the task has succeeded.
func (ts Tasks) AwaitSuccess(t *testing.T, instanceID string) {
	Eventually(t, "the task ends", func() bool {
		_, state := ts.Latest(t, instanceID)
		require.NotEqual(t, "failed", state, "the task failed")
		return state == "succeeded"
	})
}

// AwaitFailure waits until the newest task of an instance has failed, and fails the test unless operators find the
// cause in the task.
func (ts Tasks) AwaitFailure(t *testing.T, instanceID string, limit time.Duration, cause string) {
	Within(t, limit, "the task fails", func() bool {
		_, state := ts.Latest(t, instanceID)
		require.NotEqual(t, "succeeded", state, "the task succeeded")
		return state == "failed"
	})
	var recorded string
	ts.Scan(t, &recorded, "SELECT last_error FROM task WHERE instance_id = $1 ORDER BY id DESC LIMIT 1", instanceID)
	assert.Contains(t, recorded, cause, "operators do not read %q but", cause)
}

// RestoreBefore makes PostgreSQL record what a backup holds that was taken while an instance was being provisioned.
func (ts Tasks) RestoreBefore(t *testing.T, i Instance) (task string) {
	ts.Exec(t, "UPDATE instance SET state = 'creating' WHERE id = $1", i.ID)
	ts.Scan(t, &task, `UPDATE task SET state = 'in progress', finished_at = NULL, step = '', attempt = 0, run_at = now(),
		last_error = '' WHERE instance_id = $1 AND kind = 'provision' RETURNING 'task_' || id`, i.ID)
	return task
}

func (ts Tasks) Last(t *testing.T) (id int64) {
	ts.Scan(t, &id, "SELECT last_value FROM task_id_seq")
	return id
}

// Until waits until a query yields true.
func (ts Tasks) Until(t *testing.T, what, query string, args ...any) {
	Eventually(t, what, func() (holds bool) {
		ts.Scan(t, &holds, query, args...)
		return holds
	})
}

func (ts Tasks) Scan(t *testing.T, value any, query string, args ...any) {
	require.NoError(t, ts.Pool.QueryRow(t.Context(), query, args...).Scan(value))
}

// undoTime limits how long an operation may take to end after it was cancelled while a worker ran it: its lease of ten
// seconds, plus time for a busy machine.
const undoTime = 10*time.Second + 3*time.Minute

const ByOperator = "Cancelled by an operator."

// ExpireLeases makes the lease on every task in progress expire now, so that another broker takes over a killed
// broker's tasks at once. It is for tests that do not measure how long that takes.
func ExpireLeases(t testing.TB, database *pgxpool.Pool) { expireLeases(t, database, "TRUE") }

// ExpireLeasesOfHolder is ExpireLeases for those of the broker that works on an instance.
func ExpireLeasesOfHolder(t testing.TB, database *pgxpool.Pool, instanceID string) {
	expireLeases(t, database, "lease_owner IN (SELECT lease_owner FROM task WHERE instance_id = $1)", instanceID)
}

// expireLeases tells the brokers, which learn of it at their next look otherwise.
func expireLeases(t testing.TB, database *pgxpool.Pool, condition string, args ...any) {
	_, err := database.Exec(t.Context(), `WITH expired AS (UPDATE task SET lease_until = now()
			WHERE state = 'in progress' AND lease_until > now() AND `+condition+` RETURNING id)
		SELECT pg_notify('mysql_broker', '') FROM expired`, args...)
	require.NoError(t, err)
}

// Desk is a broker with a private server, which tests can stall, and an operator's commands.
type Desk struct {
	Platform
	Operator
	AdminDB *sql.DB
	Tasks   Tasks
	Faults  *Faults
}

// Desk is the platform's broker with what tests need beside it. faults may be nil.
func (p Platform) Desk(t *testing.T, env map[string]string, faults *Faults) Desk {
	return Desk{p, p.Operator(env), p.Admin(t), OpenTasks(t, env), faults}
}

// Interrupted prepares a test that kills the broker while it works with the data of an instance on a server of the test's
// own. restart starts another one.
func Interrupted(t *testing.T, private servers.MySQL, configure func(env map[string]string)) (d Desk, i Instance,
	c Credentials, restart func() Platform) {
	env := Environment(t, private)
	configure(env)
	faults := NewFaults(t, env)
	ts := OpenTasks(t, env)
	restart = func() Platform {
		ExpireLeases(t, ts.Pool)
		return StartPlatform(t, private, env)
	}
	p := StartPlatform(t, private, env)
	i = p.MakeOwn(t, "shared-small")
	return Desk{p, p.Operator(env), p.Admin(t), ts, faults}, i, MakeObjects(t, i), restart
}

// Ended waits until a task has ended, and returns its state and what users read about it.
func (d Desk) Ended(t *testing.T, task string) (state, description string) {
	d.Tasks.Await(t, task, "ends", "state <> 'in progress'")
	var shown struct{ State, Description string }
	d.Read(t, &shown, "tasks", task)
	return shown.State, shown.Description
}

// ExpectEnd waits until a task has ended, and fails the test unless it has this state and a description with these words.
func (d Desk) ExpectEnd(t *testing.T, task, state string, words ...string) {
	ended, says := d.Ended(t, task)
	require.Equal(t, state, ended, "%s: %s", task, says)
	for _, w := range words {
		assert.Contains(t, says, w, task)
	}
}

// Failing makes every step of that name fail until enough is called.
func (d Desk) Failing(step string) (enough func()) {
	d.Faults.Decide(func(_ int, point string) Word {
		if strings.HasSuffix(point, ": "+step+": begins") {
			return Fail
		}
		return GoOn
	})
	return d.Faults.GoOn
}

// Latest is the newest task of an instance and its bindings.
func (d Desk) Latest(t *testing.T, i Instance) string {
	all := d.IDs(t, "task", "tasks", "--instance", i.ID, "--limit", "1")
	require.Len(t, all, 1, "tasks of %s", i.ID)
	return all[0]
}
