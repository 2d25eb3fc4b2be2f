package e2e

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"mysql-broker/test/testdrive"
)

const (
	leaseTime = 10 * time.Second
	// outlastTime is long enough for every lease to be renewed or to run out.
	outlastTime = leaseTime + 2*time.Second
	// takeoverTime bounds how long a task may lie still after its worker died, on a busy machine.
	takeoverTime = leaseTime + testdrive.Patience
	// stopTime bounds how long a broker may take to end after SIGTERM, on a busy machine. That it waits for less than the
	// 10 seconds that Cloud Foundry leaves it is tested in cmd/mysql-broker/app.
	stopTime = 30 * time.Second
)

// tasks is the task table in the brokers' PostgreSQL database.
type tasks struct{ pool *pgxpool.Pool }

func openTasks(t *testing.T, env map[string]string) tasks {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), env["DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return tasks{pool}
}

// exec carries out a statement.
func (ts tasks) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := ts.pool.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// latest returns the newest task of an instance or, if bindingID is not empty, of a binding. epoch grows with every
// worker that takes it.
func (ts tasks) latest(t *testing.T, instanceID, bindingID string) (epoch int, state string) {
	t.Helper()
	err := ts.pool.QueryRow(t.Context(), `SELECT epoch, state FROM task
		WHERE instance_id = $1 AND binding_id = $2 ORDER BY id DESC LIMIT 1`, instanceID, bindingID).
		Scan(&epoch, &state)
	if err != nil {
		t.Fatal(err)
	}
	return epoch, state
}

// awaitTakeover waits until a worker has the task that is not the one of epoch last.
func (ts tasks) awaitTakeover(t *testing.T, instanceID, bindingID string, last int, limit time.Duration) {
	t.Helper()
	testdrive.Eventually(t, limit, "another worker takes over", func() bool {
		epoch, _ := ts.latest(t, instanceID, bindingID)
		return epoch > last
	})
}

// await waits until an SQL condition on a task's columns holds. It asks PostgreSQL, because a process of the broker's
// command for each question takes a hundred times as long.
func (ts tasks) await(t *testing.T, task, what, condition string) {
	t.Helper()
	testdrive.Eventually(t, undoTime, task+" "+what, func() (holds bool) {
		ts.scan(t, &holds, "SELECT "+condition+" FROM task WHERE 'task_' || id = '"+task+"'")
		return holds
	})
}

// awaitSuccess waits until the task has succeeded.
func (ts tasks) awaitSuccess(t *testing.T, instanceID, bindingID string) {
	t.Helper()
	testdrive.Eventually(t, testdrive.Patience, "the task ends", func() bool {
		_, state := ts.latest(t, instanceID, bindingID)
		if state == "failed" {
			t.Fatal("the task failed")
		}
		return state == "succeeded"
	})
}
