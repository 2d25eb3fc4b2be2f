package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"mysql-broker/store"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// answerTime is less than platforms wait. The store's own bounds are 5 to 10 s.
const answerTime = 50 * time.Second

// PostgreSQL ends a silent transaction, and refuses writes after another server has taken over.
func TestTransactionsThatPostgresGivesUpAreOutages(t *testing.T) {
	t.Parallel()
	databaseURL := servers.Postgres(t)
	observer := connect(t, databaseURL)
	s := servers.OpenStore(t, databaseURL)
	for name, statements := range map[string]func(tx *store.Tx) error{
		"silent for too long": func(tx *store.Tx) error {
			if err := tx.Exec(t.Context(), "SET LOCAL idle_in_transaction_session_timeout = '100ms'"); err != nil {
				return err
			}
			testdrive.Eventually(t, "the transaction is ended", func() (ended bool) {
				require.NoError(t, observer.QueryRow(t.Context(), `SELECT NOT EXISTS (SELECT FROM pg_stat_activity
					WHERE datname = current_database() AND state = 'idle in transaction')`).Scan(&ended))
				return ended
			})
			return tx.Exec(t.Context(), "SELECT 1")
		},
		"read-only": func(tx *store.Tx) error {
			if err := tx.Exec(t.Context(), "SET TRANSACTION READ ONLY"); err != nil {
				return err
			}
			tx.SetInstanceState("i", store.Ready)
			return nil
		},
		"failed before": func(tx *store.Tx) error {
			err := tx.Exec(t.Context(), "SELECT 1/0")
			assert.NotErrorIs(t, err, store.ErrUnavailable, "division by zero: %v", err)
			return tx.Exec(t.Context(), "SELECT 1")
		},
	} {
		assert.ErrorIs(t, s.InTx(t.Context(), statements), store.ErrUnavailable, name)
	}
}

// PostgreSQL whose disk is full answers and reads, and is not ready all the same, until there is room again.
func TestFullDisk(t *testing.T) {
	s, url := fresh(t)
	exec(t, url, `CREATE FUNCTION no_room() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$`,
		"CREATE EVENT TRIGGER no_room ON ddl_command_start EXECUTE FUNCTION no_room()")
	expect := func(want error, when string) {
		for range 2 {
			err := s.Writable(t.Context())
			assert.ErrorIs(t, err, want, "%s: %v, want %v", when, err, want)
		}
	}
	expect(nil, "before a statement finds no room")
	err := s.InTx(t.Context(), func(tx *store.Tx) error { return tx.Exec(t.Context(), "CREATE TABLE large (n INT)") })
	assert.ErrorIs(t, err, store.ErrUnavailable, "without room")
	expect(store.ErrFull, "without room")
	exec(t, url, "DROP EVENT TRIGGER no_room")
	expect(nil, "with room again")
	exec(t, url, "DO $$ BEGIN ASSERT NOT EXISTS (SELECT FROM pg_class WHERE relname LIKE 'room%'); END $$")
}

// Settings of a database that were wrong for a while do not outlive that in the connections that were opened meanwhile.
func TestConnectionsForgetWrongSettings(t *testing.T) {
	t.Parallel()
	for setting, wrong := range map[string]string{"default_transaction_read_only": "on", "search_path": "nowhere"} {
		url := servers.Postgres(t)
		alter := func(what string) {
			exec(t, url, "SET default_transaction_read_only = off",
				"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I "+what+"', current_database()); END $$")
		}
		alter("SET " + setting + " = " + wrong)
		s := servers.OpenStore(t, url)
		write := func() error {
			return s.InTx(t.Context(), func(tx *store.Tx) error {
				return tx.InsertInstance(store.Instance{ID: "i", ServiceID: "s", PlanID: "p",
					Location: store.Location{Server: "one"}, Database: "db"})
			})
		}
		require.Error(t, write(), "%s = %s has no effect", setting, wrong)
		err := s.Writable(t.Context())
		assert.Equal(t, wrong == "on", errors.Is(err, store.ErrReadOnly), "with %s = %s: %v", setting, wrong, err)
		alter("RESET " + setting)
		testdrive.Eventually(t, "writes work again after "+setting, func() bool { return write() == nil })
	}
}

// What a platform may send, and PostgreSQL cannot store.
func TestTextThatCannotBeStored(t *testing.T) {
	s := parallel(t)
	for what, i := range map[string]store.Instance{
		"text": {SpaceGUID: "a\x00b"},
		"JSON": {Context: json.RawMessage(`{"instance_name":"\u0000"}`)},
	} {
		i.ID, i.Location, i.Database = what, store.SharedLocation("a"), "db_"+what
		_, err := recordProvision(t, s, i, provisionOf(i.ID))
		assert.ErrorIs(t, err, store.ErrText, what)
		expectUnrecorded(t, s, i.ID)
	}
}

// Unusual values that PostgreSQL can store come back.
func TestTextThatCanBeStored(t *testing.T) {
	s := parallel(t)
	many := map[string]int{}
	for n := range 100_000 {
		many[fmt.Sprintf("%x", n)] = n
	}
	keys, err := json.Marshal(many)
	require.NoError(t, err)
	for what, context := range map[string]string{"many keys": string(keys), "a large number": `{"n":-1.5e308}`,
		"a key that comes twice": `{"a":1,"a":"2"}`,
		"odd characters":         `{"":"\u202e\ufeff\uffff\ud83d\udca9","\\u0000":"'\";--"}`} {
		i := store.Instance{ID: what, SpaceGUID: "'\";--", Context: json.RawMessage(context),
			Location: store.SharedLocation("a"), Database: "db_" + what}
		insertInstance(t, s, i)
		got, err := s.Instances.Get(t.Context(), what)
		assert.True(t, err == nil && got.SpaceGUID == i.SpaceGUID && len(got.Context) != 0,
			"%s: %.100s, %v", what, got.Context, err)
	}
}

// withConnections opens a store with so many connections.
func withConnections(t *testing.T, most string) *store.Store {
	u, err := url.Parse(servers.Postgres(t))
	require.NoError(t, err)
	query := u.Query()
	query.Set("pool_max_conns", most)
	u.RawQuery = query.Encode()
	return servers.OpenStore(t, u.String())
}

// lock is for a transaction that locks an instance.
func lock(t *testing.T, id string) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		_, err := tx.LockInstance(t.Context(), id)
		return err
	}
}

// When PostgreSQL refuses further connections, all transactions share those that there are.
func TestPostgresTakesNoMoreConnections(t *testing.T) {
	t.Parallel()
	pg := testdrive.StartPostgres(t)
	s := openMigrated(t, pg.URL)
	insertInstance(t, s, store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db"})
	var err error
	for err == nil {
		var conn *pgx.Conn
		if conn, err = pgx.Connect(t.Context(), pg.URL); err == nil {
			defer conn.Close(context.Background())
		}
	}
	refused, _ := errors.AsType[*pgconn.PgError](err)
	require.True(t, refused != nil && refused.Code == "53300", "%v", err)
	var all errgroup.Group
	for range 20 {
		all.Go(func() error { return s.InTx(t.Context(), lock(t, "i")) })
	}
	require.NoError(t, all.Wait())
}

// Waiting for a connection of an exhausted pool is limited like a statement.
func TestBeginIsBoundedLikeAStatement(t *testing.T) {
	t.Parallel()
	s := withConnections(t, "1")
	errHeld := errors.New("the only connection was held meanwhile")
	require.ErrorIs(t, s.InTx(t.Context(), func(*store.Tx) error {
		since := limits.Watch()
		assert.ErrorIs(t, s.InTx(t.Context(), func(tx *store.Tx) error { return tx.Alive(t.Context()) }),
			store.ErrUnavailable, "without a free connection")
		since.Done(t, "it gives up", answerTime)
		return errHeld // its own time may be over too
	}), errHeld)
}

// While PostgreSQL does not answer, reads fail within seconds, also those that wait for a connection.
func TestReadsDuringAnOutage(t *testing.T) {
	t.Parallel()
	p := testdrive.StartPostgres(t)
	s := openMigrated(t, p.URL)
	id := newTask(t, s, provisionOf("i")).ID
	p.Freeze(t)
	defer p.Thaw(t)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			since := limits.Watch()
			_, err := s.Tasks.Status(t.Context(), id, "i", "")
			assert.ErrorIs(t, err, store.ErrUnavailable)
			since.Done(t, "an answer", answerTime)
		})
	}
	all.Wait()
	p.Thaw(t)
	testdrive.Eventually(t, "statuses can be read again", func() bool {
		got, err := s.Tasks.Status(t.Context(), id, "i", "")
		return err == nil && got.State == store.InProgress
	})
}

// An unbind that keeps its account references the instance's row, but does not wait for its lock.
func TestUnbindEndsWhileItsInstanceIsLocked(t *testing.T) {
	s, ctx := parallel(t), t.Context()
	ready(t, s, "i", "db")
	n := leased("i", "me")
	n.BindingID, n.Kind = "b", store.Unbind
	unbind := newTask(t, s, n)
	assert.NoError(t, s.InTx(ctx, func(tx *store.Tx) error {
		if err := lock(t, "i")(tx); err != nil {
			return err
		}
		return s.Queue.Finish(ctx, held(unbind), store.Succeeded, "", true, func(other *store.Tx) {
			other.RecordRetiredAccount("i", "u")
		})
	}))
}

// A request that waits too long for another one on its instance is refused as concurrent, and no outage.
func TestWaitForALockEnds(t *testing.T) {
	s := parallel(t)
	ready(t, s, "i", "db")
	write(t, s, func(tx *store.Tx) {
		assert.NoError(t, lock(t, "i")(tx))
		err := s.InTx(t.Context(), lock(t, "i"))
		assert.True(t, errors.Is(err, store.ErrLocked) && !errors.Is(err, store.ErrUnavailable), "%v", err)
	})
}

// One tenant's transactions take all connections, and more of them wait and come again. Another one's is next when its
// turn comes, and leases need none of these connections.
func TestConnectionsGoRound(t *testing.T) {
	t.Parallel()
	s := withConnections(t, "2")
	for _, id := range []string{"greedy", "other"} {
		ready(t, s, id, "db_"+id)
	}
	const many = 20
	var all sync.WaitGroup
	var commits atomic.Int64
	var done atomic.Bool
	comes := make(chan bool, many)
	for range many {
		all.Go(func() {
			comes <- true
			for !done.Load() && assert.NoError(t, s.InTx(t.Context(), lock(t, "greedy"))) {
				commits.Add(1)
			}
		})
	}
	for range many {
		testdrive.Receive(t, comes, "the greedy one comes")
	}
	before := commits.Load()
	assert.NoError(t, s.InTx(t.Context(), lock(t, "other")), "beside many of another one")
	n := commits.Load() - before
	assert.True(t, n <= 3*many, "%d transactions of another one went first", n)
	done.Store(true)
	all.Wait()

	held, release := make(chan bool, 2), make(chan bool)
	for range 2 {
		all.Go(func() {
			assert.NoError(t, s.InTx(t.Context(), func(tx *store.Tx) error {
				err := tx.Alive(t.Context())
				held <- true
				<-release
				return err
			}))
		})
	}
	for range 2 {
		testdrive.Receive(t, held, "a connection is taken")
	}
	_, err := s.Queue.Extend(t.Context(), "owner", nil, time.Minute)
	assert.NoError(t, err, "without a connection, leases end")
	close(release)
	all.Wait()
}
