package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// position is a PostgreSQL cluster and its timeline. Each promotion of a standby begins a new timeline, so that of two
// servers with the same data the one with the higher timeline is the primary.
// https://www.postgresql.org/docs/current/continuous-archiving.html#BACKUP-TIMELINES
type position struct {
	System   int64
	Timeline int64 // 0: a standby
}

const selectPosition = `SELECT (SELECT system_identifier FROM pg_control_system()),
	CASE WHEN pg_is_in_recovery() THEN 0
		ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END`

// readPosition reads the position of the server. Some services forbid these functions. A primary there has timeline 1
// of no system, and a failover that loses commits is not noticed.
func readPosition(ctx context.Context, conn *pgx.Conn) (position, error) {
	rows, err := conn.Query(ctx, selectPosition)
	if err != nil {
		return position{}, err
	}
	p, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[position])
	if refusal(err) == "" || outage(err) {
		return p, err
	}
	var writes bool
	err = conn.QueryRow(ctx, "SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'").
		Scan(&writes)
	if err != nil || !writes {
		return position{}, err
	}
	return position{Timeline: 1}, nil
}

// Errors of connections to servers that are not the primary; they wrap ErrUnavailable.
var (
	errNoPrimary = fmt.Errorf("%w: none of its servers accepts writes", ErrUnavailable)
	errStandby   = fmt.Errorf("%w: the server is a standby", ErrUnavailable)
	errReplaced  = fmt.Errorf("%w: another server was promoted and has replaced this one", ErrUnavailable)
)

// Failover says that another server is the primary now.
type Failover struct {
	Timeline int64
	LostTask int64 // a task that this process had recorded, and that the new primary does not have; 0: none is missing
}

// failover knows which server this process has last used as the primary. It keeps connections to an older one from
// being used, and finds out whether the new primary lacks commits.
type failover struct {
	mu     sync.Mutex
	at     position
	newest Task // the latest one that this process has recorded
	notify []func(Failover)
	pools  []*pgxpool.Pool
	reset  func() // called when their connections are closed; must not block
}

// use adds pools whose connections are closed when their server is replaced.
func (f *failover) use(pools ...*pgxpool.Pool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pools = append(f.pools, pools...)
}

// reconnect closes the connections of all pools, those in use when they are returned.
func (f *failover) reconnect() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closeConnections()
}

func (f *failover) closeConnections() {
	for _, pool := range f.pools {
		pool.Reset()
	}
	f.reset()
}

// positionKey is the key under which a connection keeps the position of its server when it was opened.
const positionKey = "position"

// OnFailover makes fn be called after each failover, before the new primary is used. fn must not use the store.
func (s *Store) OnFailover(fn func(Failover)) {
	s.failover.mu.Lock()
	defer s.failover.mu.Unlock()
	s.failover.notify = append(s.failover.notify, fn)
}

// inUTC makes times that are read be in UTC, whatever the time zone of this host.
var inUTC = &pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID,
	Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC}}

// connected prepares a new connection. It refuses a server that was replaced. With the first connection to a new
// primary, it compares what is there with what this process has recorded, before anything else is done there.
func (s *database) connected(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, statementTime) // the pool sets none
	defer cancel()
	if err := limitWaits(ctx, conn); err != nil {
		return err
	}
	conn.TypeMap().RegisterType(inUTC)
	at, err := readPosition(ctx, conn)
	if err != nil {
		return err
	}
	if at.Timeline == 0 && s.hosts != nil {
		return errStandby
	}
	f := &s.failover
	f.mu.Lock()
	defer f.mu.Unlock()
	same := at.System == f.at.System
	switch {
	case at.Timeline == 0: // unknown, or a standby, which refuses writes itself
		return nil
	case same && at.Timeline < f.at.Timeline:
		return errReplaced
	case !same || at.Timeline > f.at.Timeline:
		if f.at.Timeline > 0 {
			if err := f.follow(ctx, conn, at); err != nil {
				return err
			}
		}
		f.at = at
	}
	conn.PgConn().CustomData()[positionKey] = at
	return nil
}

// follow holds the new primary if it lacks the newest task that this process has recorded. The tasks of others are
// compared by themselves, and by the marks on the servers.
func (f *failover) follow(ctx context.Context, conn *pgx.Conn, at position) error {
	change := Failover{Timeline: at.Timeline}
	if f.newest.ID > 0 {
		var knows bool
		err := conn.QueryRow(ctx, knowsTask, f.newest.ID, f.newest.CreatedAt, lossAge).Scan(&knows)
		if err != nil {
			return fmt.Errorf("compare the new PostgreSQL primary with what was recorded: %w", err)
		}
		if !knows {
			change.LostTask = f.newest.ID
			reason := fmt.Sprintf("PostgreSQL has failed over to a server that lacks commits: task_%d of %s is missing.",
				f.newest.ID, f.newest.CreatedAt.Format(time.RFC3339))
			_, err := conn.Exec(ctx, skipTasks, f.newest.ID, taskReserve)
			if err == nil {
				_, err = conn.Exec(ctx, setHold, reason)
			}
			if err != nil {
				return fmt.Errorf("hold PostgreSQL: %w", err)
			}
			f.newest = Task{} // else the next failover would hold PostgreSQL again
		}
	}
	f.closeConnections()
	for _, fn := range f.notify {
		fn(change)
	}
	return nil
}

// lossAge is how old a task may be to show that commits are missing. Ended tasks are kept for longer, so a task of that
// age is not missing because it was removed.
const lossAge = 28 * 24 * time.Hour

func (f *failover) recorded(t Task) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t.ID > f.newest.ID {
		f.newest = t
	}
}

// current returns an error if a connection is to a server that was replaced meanwhile. What was committed there may be
// lost.
func (f *failover) current(conn *pgx.Conn) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at, known := conn.PgConn().CustomData()[positionKey].(position); known && at != f.at {
		return errReplaced
	}
	return nil
}

// firstEpoch returns a number below all epochs of leases on this timeline. Leases that were lost with commits in a
// failover have lower epochs than all leases that the new primary gives out: the writes of their workers fail, even if
// the same task, or another one with the same id, is leased again.
func (f *failover) firstEpoch() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(f.at.Timeline-1, 0) << 32
}
