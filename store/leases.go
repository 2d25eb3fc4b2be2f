package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Queue records which worker has a task, how far that is, and how it ends.
type Queue struct{ *database }

// Passed are the tasks that Claim passes over: those of servers, and those of instances of an organization, at a server
// or, if that is "", at all of them.
type Passed struct {
	Servers       []string
	Organizations []Place
}

// Place is an organization at a server, or at all of them ("").
type Place struct{ Server, Organization string }

// Claim leases to owner the task that has been due longest, or returns ErrNotFound. It passes over those that a live
// lease keeps waiting (see conflicting). During a Hold nothing is claimed: the recorded tasks may have been completed
// long ago, or undone.
//
// Taking over from a worker that died counts as an attempt. A second statement counts it: if the response to the first
// is lost, or owner has died since it sent the first, no step runs under this lease, and the next claim counts instead.
func (s Queue) Claim(ctx context.Context, owner string, ttl time.Duration, passed Passed) (Task, error) {
	type claimed struct {
		Task
		Abandoned bool // by a worker that died
	}
	servers, organizations := make([]string, len(passed.Organizations)), make([]string, len(passed.Organizations))
	for n, p := range passed.Organizations {
		servers[n], organizations[n] = p.Server, p.Organization
	}
	t, err := oneRow(ctx, s.pool, pgx.RowToStructByPos[claimed], `
		WITH due AS MATERIALIZED (
			SELECT c.id AS due_id, c.lease_owner IS NOT NULL AS abandoned FROM task c
			WHERE c.finished_at IS NULL AND c.run_at <= now() AND c.server <> ALL ($3) AND NOT `+isHeld+`
				AND (c.lease_until IS NULL OR c.lease_until < clock_timestamp())
				AND NOT EXISTS (`+conflicting+`)
				AND NOT EXISTS (SELECT FROM unnest($5::text[], $6::text[]) AS p (server, organization)
					WHERE p.server IN ('', c.server) AND p.organization = (SELECT organization_guid FROM instance
						WHERE id = c.instance_id))
			ORDER BY c.run_at, c.id LIMIT 1 FOR UPDATE OF c SKIP LOCKED)
		UPDATE task SET epoch = greatest(epoch, $4) + 1, lease_owner = $1, lease_until = clock_timestamp() + $2::interval
		FROM due WHERE id = due_id
		RETURNING `+taskColumns+`, abandoned`, owner, ttl, append([]string{}, passed.Servers...), s.failover.firstEpoch(),
		servers, organizations)
	if err != nil || !t.Abandoned {
		return t.Task, err
	}
	t.Attempt++
	return t.Task, s.write(ctx, Lease{ID: t.ID, Epoch: t.Epoch}, "attempt = attempt + 1")
}

// Lease identifies a lease.
type Lease struct {
	ID    int64 // of the task
	Epoch int64
	Adds  bool // the task goes on during a Hold: see NewTask
}

// Extend renews those leases of owner that are still live, for ttl from now by PostgreSQL's clock, and returns them.
// The others are lost; during a Hold, so are those of tasks that do more than add. A lease that is not
// among held expires: owner does not know of it, because the response was lost.
func (s Queue) Extend(ctx context.Context, owner string, held []Lease, ttl time.Duration) ([]Lease, error) {
	ids, epochs, adds := make([]int64, len(held)), make([]int64, len(held)), make([]bool, len(held))
	for i, l := range held {
		ids[i], epochs[i], adds[i] = l.ID, l.Epoch, l.Adds
	}
	return allRows(ctx, s.leases, pgx.RowToStructByPos[Lease], `
		WITH live AS (
			SELECT task.id, adds
			FROM task JOIN unnest($2::bigint[], $3::bigint[], $4::boolean[]) AS held (id, epoch, adds) USING (id, epoch)
			WHERE lease_owner = $1 AND `+notEnded+` AND lease_until > clock_timestamp() AND (adds OR NOT `+isHeld+`)
			ORDER BY task.id FOR UPDATE OF task) -- in the order in which others lock tasks
		UPDATE task SET lease_until = clock_timestamp() + $5::interval FROM live WHERE task.id = live.id
		RETURNING task.id, epoch, adds`, owner, ids, epochs, adds, ttl)
}

// MendClock repairs leases and due times after PostgreSQL's clock was set back. A lease that ends later than maxLease
// from now was taken before that, and would keep a dead worker's task for as long as the clock was set back: it is cut
// to maxLease, within which a living worker renews it. A task that waits for longer than maxDelay becomes due now. That
// it makes no progress counts from now on. A second is allowed on top, because others take leases at the same time. It
// returns how many tasks it changed. If there are none, it reads the live leases and the end of an index.
func (s Queue) MendClock(ctx context.Context, maxLease, maxDelay time.Duration) (mended int64, err error) {
	return s.run(ctx, s.leases, `
		UPDATE task SET
			lease_until = CASE WHEN lease_until > now() + $1::interval THEN now() + $1::interval ELSE lease_until END,
			run_at = CASE WHEN run_at > now() + $2::interval THEN now() ELSE run_at END,
			progressed_at = least(progressed_at, now())
		WHERE id IN (
			SELECT id FROM task WHERE lease_until > now() + $1::interval + '1 s'
				OR finished_at IS NULL AND run_at > now() + $2::interval + '1 s'
			ORDER BY id FOR UPDATE SKIP LOCKED)`, maxLease, maxDelay)
}

// Agenda is when there is something to do, as far as it is not done, by PostgreSQL's clock. A time that has passed is
// negative; during a Hold, and if there is nothing, it is nil.
type Agenda struct {
	Task   *time.Duration // until a task may be claimed: it is due, and its lease, if it has one, has expired
	Expiry *time.Duration // until a binding expires
	// ClockSetBack says that MendClock would change something.
	ClockSetBack bool
}

// agendaTasks is how many tasks Agenda reads, those that are due first. There are never that many leases.
const agendaTasks = 1000

// Agenda reads, by one cheap statement, when there is something to do. maxLease and maxDelay are those of MendClock.
func (s Queue) Agenda(ctx context.Context, maxLease, maxDelay time.Duration) (Agenda, error) {
	return oneRow(ctx, s.leases, pgx.RowToStructByPos[Agenda], `
		SELECT (SELECT min(greatest(run_at, lease_until)) - clock_timestamp() FROM (SELECT run_at, lease_until FROM task
				WHERE finished_at IS NULL ORDER BY run_at, id LIMIT $3) first WHERE NOT `+isHeld+`),
			(SELECT min(expires_at) - clock_timestamp() FROM binding WHERE expires_at IS NOT NULL AND NOT `+isHeld+`),
			EXISTS (SELECT FROM task WHERE lease_until > now() + $1::interval + '1 s')
				OR EXISTS (SELECT FROM task WHERE finished_at IS NULL AND run_at > now() + $2::interval + '1 s')`,
		maxLease, maxDelay, agendaTasks)
}

// Progress records the last step that a worker has finished ("" for none yet), and the sentence that users see. further
// says that the present step has done more than ever before.
func (s Queue) Progress(ctx context.Context, l Lease, step, description string, further bool) error {
	return s.write(ctx, l, `step = $3, description = $4, attempt = CASE WHEN step = $3 THEN attempt ELSE 0 END,
		progressed_at = CASE WHEN step = $3 AND NOT $5 THEN progressed_at ELSE now() END`, step, description, further)
}

// Postpone releases a task's lease until it is tried again after delay, and records the attempts at its present step.
// lastError is for operators.
func (s Queue) Postpone(ctx context.Context, l Lease, delay time.Duration, attempts int, lastError string) error {
	return s.write(ctx, l, `run_at = now() + $3::interval, attempt = $4, last_error = $5, lease_owner = NULL,
		lease_until = NULL`, delay, attempts, storable(lastError))
}

// Await releases the lease of a task whose server cannot be reached, until it is tried again after delay. It does not
// count as an attempt. description is for users, lastError for operators.
func (s Queue) Await(ctx context.Context, l Lease, delay time.Duration, description, lastError string) error {
	return s.write(ctx, l, `run_at = now() + $3::interval, description = $4, last_error = $5, lease_owner = NULL,
		lease_until = NULL`, delay, description, storable(lastError))
}

// Suspend releases the lease of a task whose present step, the one after step, is pending, until it runs again after
// delay. It does not count as an attempt. description is for users. queued says that it waits for its turn, behind
// tasks that make progress.
func (s Queue) Suspend(ctx context.Context, l Lease, delay time.Duration, step, description string,
	queued bool) error {
	return s.write(ctx, l, `run_at = now() + $3::interval, step = $4, description = $5,
		attempt = CASE WHEN step = $4 THEN attempt ELSE 0 END, lease_owner = NULL, lease_until = NULL,
		progressed_at = CASE WHEN step = $4 AND NOT $6 THEN progressed_at ELSE now() END`,
		delay, step, description, queued)
}

// Remember replaces what a task's steps remember.
func (s Queue) Remember(ctx context.Context, l Lease, memory map[string]json.RawMessage) error {
	return s.write(ctx, l, "memory = $3", memory)
}

// RecordError records an error, for operators, of a task that is about to end.
func (s Queue) RecordError(ctx context.Context, l Lease, lastError string) error {
	return s.write(ctx, l, "last_error = $3", storable(lastError))
}

// GiveUp begins the cleanup phase of a task. The worker keeps the lease.
func (s Queue) GiveUp(ctx context.Context, l Lease, description, lastError string) error {
	return s.write(ctx, l, `phase = 'cleanup', step = '', attempt = 0, description = $3, last_error = $4,
		progressed_at = now()`,
		storable(description), storable(lastError))
}

// storable replaces what PostgreSQL's type text cannot hold. Errors may quote anything, for example a server's log.
func storable(s string) string { return strings.ReplaceAll(strings.ToValidUTF8(s, "�"), "\x00", "") }

func (s Queue) write(ctx context.Context, l Lease, set string, args ...any) error {
	return s.change(ctx, ErrLeaseLost, "UPDATE task SET "+set+" WHERE id = $1 AND epoch = $2 AND "+notEnded,
		append([]any{l.ID, l.Epoch}, args...)...)
}

// Finish ends a task and, in the same transaction, records with outcome what has become of its instance or binding. If
// the lease is lost, it changes nothing and returns ErrLeaseLost. If durable is false, the transaction is committed
// asynchronously; after a crash of PostgreSQL, the task may be in progress again and then runs once more.
// https://www.postgresql.org/docs/current/wal-async-commit.html
//
// All statements go in one round trip, so that those of the outcome check themselves whether the task was ended. They
// must be statements of Tx.change.
func (s Queue) Finish(ctx context.Context, l Lease, state, description string, durable bool, outcome func(*Tx)) error {
	var ended *bool
	err := s.inTx(ctx, func(tx *Tx) error {
		if !durable {
			tx.write("do not wait for the disk", "SELECT set_config('synchronous_commit', 'off', true)")
		}
		tx.write("lock what the task is about", lockSubject, l.ID)
		ended = expectRow(tx, new(int64), pgx.RowTo[int64], `WITH ended AS (
				UPDATE task SET state = $3, description = $4, finished_at = now(), lease_owner = NULL, lease_until = NULL
				WHERE id = $1 AND epoch = $2 AND `+notEnded+` RETURNING *),
			audited AS (`+auditEnded+`)
			SELECT id FROM ended`, l.ID, l.Epoch, state, description)
		before := len(tx.unsent)
		tx.ends = l.ID
		outcome(tx)
		for _, s := range tx.unsent[before:] {
			if !s.heedsLease {
				return fmt.Errorf("no statement for the outcome of a task: %s", s.sql)
			}
		}
		return nil
	})
	if err == nil && !*ended {
		return ErrLeaseLost
	}
	return err
}

// lockSubject locks a task's binding or, without one, its instance. Operations begin by locking them before the task,
// so this does too.
const lockSubject = `WITH locked_instance AS (
		SELECT id FROM instance
		WHERE id = (SELECT instance_id FROM task WHERE id = $1 AND binding_id = '') FOR NO KEY UPDATE),
	locked_binding AS (
		SELECT id FROM binding
		WHERE (instance_id, id) = (SELECT instance_id, binding_id FROM task WHERE id = $1 AND binding_id <> '')
		FOR NO KEY UPDATE)
	SELECT id FROM locked_instance UNION ALL SELECT id FROM locked_binding`

// Release releases the lease of a task in progress, so that another worker can go on at once.
func (s Queue) Release(ctx context.Context, l Lease) error {
	return s.write(ctx, l, "lease_owner = NULL, lease_until = NULL")
}

// ReleaseCancelled releases owner's lease of a task that was cancelled or aborted meanwhile, so that the next task of
// the instance, or the cleanup, need not wait until it expires.
func (s Queue) ReleaseCancelled(ctx context.Context, l Lease, owner string) error {
	return s.exec(ctx, `UPDATE task SET lease_owner = NULL, lease_until = NULL
		WHERE id = $1 AND lease_owner = $2 AND (state <> 'in progress' OR phase = 'cleanup' AND epoch = $3 + 1)`,
		l.ID, owner, l.Epoch)
}

// WaitEnd returns the task once it has ended. It polls at intervals that double up to 250 ms.
func (s Tasks) WaitEnd(ctx context.Context, id int64) (Task, error) {
	for pause := 5 * time.Millisecond; ; pause = min(pause*2, 250*time.Millisecond) {
		task, err := s.Get(ctx, id)
		if err != nil || task.State != InProgress {
			return task, err
		}
		select {
		case <-ctx.Done():
			return task, errors.Join(ctx.Err(), context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}
