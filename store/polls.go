package store

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TaskStatus is what platforms poll of a task.
type TaskStatus struct {
	Kind        string
	State       string
	Description string // for users
	PlanID      string
}

// TaskStatus reads the status of a task of the instance (bindingID "") or of the binding, or returns ErrNotFound.
func (s *Store) TaskStatus(ctx context.Context, id int64, instanceID, bindingID string) (TaskStatus, error) {
	b := s.statuses.ask(id)
	select {
	case <-b.answered:
	case <-ctx.Done():
		return TaskStatus{}, ctx.Err()
	}
	if b.err != nil {
		return TaskStatus{}, b.err
	}
	row, ok := b.rows[id]
	if !ok || row.instanceID != instanceID || row.bindingID != bindingID {
		return TaskStatus{}, ErrNotFound
	}
	return row.TaskStatus, nil
}

// statusReaders is how many connections polls may use. More would not make polls faster, as each would read a smaller
// batch.
const statusReaders = 2

// statusReader reads, by one statement, all tasks that were asked for while the statement before was running. A round
// trip to PostgreSQL costs the broker more than everything else that it does for a poll.
type statusReader struct {
	pool    *pgxpool.Pool
	mu      sync.Mutex
	next    *statusBatch // what no reader has taken yet, or nil; a reader is about to take it, or all are busy
	readers int
}

type statusBatch struct {
	deadline time.Time
	ids      []int64
	answered chan struct{} // closed once rows and err are set
	rows     map[int64]statusRow
	err      error
}

type statusRow struct {
	TaskStatus
	instanceID, bindingID string
}

// ask adds a task to the next batch and returns the batch.
func (r *statusReader) ask(id int64) *statusBatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &statusBatch{deadline: time.Now().Add(statementTime), answered: make(chan struct{})}
		if r.readers < statusReaders {
			r.readers++
			go r.read()
		}
	}
	r.next.ids = append(r.next.ids, id)
	return r.next
}

// read reads batches until there is none.
func (r *statusReader) read() {
	for {
		runtime.Gosched() // lets others that are about to ask join the batch
		b := r.take()
		if b == nil {
			return
		}
		b.rows, b.err = r.query(b)
		close(b.answered)
	}
}

func (r *statusReader) take() *statusBatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.next
	r.next = nil
	if b == nil {
		r.readers--
	}
	return b
}

func (r *statusReader) query(b *statusBatch) (map[int64]statusRow, error) {
	ctx := context.Background()
	limited, cancel := context.WithDeadline(ctx, b.deadline)
	defer cancel()
	conn, err := acquire(limited, r.pool)
	if err != nil {
		return nil, explain(ctx, err)
	}
	defer conn.Release()
	rows, err := conn.Query(limited,
		"SELECT id, instance_id, binding_id, kind, state, description, plan_id FROM task WHERE id = ANY ($1)", b.ids)
	if err != nil {
		return nil, explain(ctx, err)
	}
	found := make(map[int64]statusRow, len(b.ids))
	var id int64
	var row statusRow
	_, err = pgx.ForEachRow(rows,
		[]any{&id, &row.instanceID, &row.bindingID, &row.Kind, &row.State, &row.Description, &row.PlanID}, func() error {
			found[id] = row
			return nil
		})
	return found, explain(ctx, err)
}
