// Package store keeps everything that brokers record in PostgreSQL. Passwords and private keys are encrypted before
// they are written. The tables are described in migrations/001_schema.sql.
//
// The connection: store.go opens it and runs single statements; tx.go runs transactions, whose statements are sent
// together; outage.go limits every wait and distinguishes outages from refusals; hosts.go finds the primary among
// several servers; failover.go prevents the use of an old primary, and finds lost commits; announce.go hears what
// PostgreSQL announces; migrate.go updates the schema.
//
// Store has a field for each subject. Files with another name: location.go (where the data of instances is),
// operations.go (how an operation begins, and what platforms have read to be absent), hold.go (detects that PostgreSQL
// was restored, and holds what could do harm), lists.go, dashboard.go and stats.go (what people and metrics read).
//
// Secrets: keyset.go encrypts and decrypts with a keyset, and replaces a key in steps; keys.go knows the keyset that
// the database belongs to, encrypts again with a new key, and has the key to the names of locks on MySQL servers.
package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrNotFound is returned by reads of a row that does not exist.
var ErrNotFound = errors.New("store: not found")

// Store has what brokers record in PostgreSQL, by subject. It is safe for concurrent use.
type Store struct {
	*database

	Instances    Instances    // service instances, and where their data is
	Bindings     Bindings     // service bindings and their accounts
	CopyAccounts CopyAccounts // accounts by which tasks copy databases
	FatalObjects FatalObjects // objects of instances at which their servers end
	CredHub      CredHub      // what CredHub has of bindings
	Backups      Backups      // backups in the object store
	Logs         Logs         // archives of binary logs
	Retained     Retentions   // data of deleted instances that can be taken back
	Resources    Resources    // databases, accounts and servers, until they are known to be gone
	Usage        Usages       // storage of instances, now and earlier
	Servers      Servers      // shared servers: how full they are, and which are drained
	Authorities  Authorities  // certificate authorities of dedicated servers
	Tasks        Tasks        // tasks, what platforms poll of them, and what operators do with them
	Queue        Queue        // which worker has a task, its progress and its end
	Leader       Leader       // periodic work that one broker at a time does
	Audit        AuditLog     // who did what
	Sessions     Sessions     // sessions of the dashboard
	Keys         Keys         // the keys that secrets in PostgreSQL are encrypted with
	Recovery     Recovery     // what makes PostgreSQL agree with the servers after it was restored
	Reports      Reports      // numbers and summaries for people and metrics
}

func newStore(db *database) *Store {
	return &Store{
		database: db,

		Instances:    Instances{db},
		Bindings:     Bindings{db},
		CopyAccounts: CopyAccounts{db},
		FatalObjects: FatalObjects{db},
		CredHub:      CredHub{db},
		Backups:      Backups{db},
		Logs:         Logs{db},
		Retained:     Retentions{db},
		Resources:    Resources{db},
		Usage:        Usages{db},
		Servers:      Servers{db},
		Authorities:  Authorities{db},
		Tasks:        Tasks{db},
		Queue:        Queue{db},
		Leader:       Leader{db},
		Audit:        AuditLog{db},
		Sessions:     Sessions{db},
		Keys:         Keys{db},
		Recovery:     Recovery{db},
		Reports:      Reports{db},
	}
}

// database is the connections to PostgreSQL that all subjects share.
type database struct {
	pool *pgxpool.Pool
	// leases has a connection of its own, so that requests that use up the pool cannot make leases run out.
	leases *pgxpool.Pool
	keys   *Keyring
	actor  Actor        // see ActAs
	full   atomic.Int64 // how many statements found the disk of PostgreSQL full since it had room

	failover failover
	hosts    *hosts // nil if the URL names one
	listener listener
}

const (
	// defaultConns is how many connections the pool holds at most unless the URL has pool_max_conns.
	defaultConns = 14
	// idleTime is after how long an unused connection of the pool is closed unless the URL has pool_max_conn_idle_time. It
	// is less than a health check's interval: right after each, the pool uses those connections first that were idle
	// longest.
	idleTime = 30 * time.Second
	// pingAfter is how long the connections beside the pool are idle before they are pinged when they are used again.
	// Their statements are repeated soon anyway.
	pingAfter = 5 * time.Second
)

// Option changes how Open connects.
type Option func(*pgxpool.Config)

// WithDialer opens every connection with dial, unless it is nil.
func WithDialer(dial pgconn.DialFunc) Option {
	return func(cfg *pgxpool.Config) {
		if dial != nil {
			cfg.ConnConfig.DialFunc = dial
		}
	}
}

// WithTracer traces every statement with t.
func WithTracer(t pgx.QueryTracer) Option {
	return func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = t }
}

// Open connects to the PostgreSQL at url (see parseURL), whose schema must exist: see Migrate. It uses up to 16
// connections, or two more than pool_max_conns in the URL: one for leases, and one that listens (see OnAnnounced).
func Open(ctx context.Context, url string, keys *Keyring, options ...Option) (_ *Store, err error) {
	cfg, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	cfg.ConnConfig.RuntimeParams["application_name"] = "mysql-broker"
	s := newStore(&database{keys: keys})
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	s.failover.reset = s.listener.reconnect
	cfg.AfterConnect = s.connected
	keep := cfg.ConnConfig.OnPgError
	cfg.ConnConfig.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		if err.Code == diskFull {
			s.full.Add(1)
		}
		if slices.Contains(inherited, err.Code) {
			go s.failover.reconnect() // it may be holding its lock now
			return false
		}
		return keep(conn, err)
	}
	for _, apply := range options {
		apply(cfg)
	}
	if !strings.Contains(url, "pool_max_conns") {
		cfg.MaxConns = defaultConns
	}
	if !strings.Contains(url, "pool_max_conn_idle_time") {
		cfg.MaxConnIdleTime = idleTime
	}
	if s.hosts = watchHosts(cfg.ConnConfig, s.failover.reconnect); s.hosts != nil {
		cfg.BeforeConnect = s.hosts.toPrimary
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("open the PostgreSQL pool: %w", err)
	}
	single := cfg.Copy()
	single.MaxConns, single.MinConns, single.MinIdleConns = 1, 0, 0
	single.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > pingAfter }
	if s.leases, err = pgxpool.NewWithConfig(ctx, single); err != nil {
		return nil, fmt.Errorf("open the PostgreSQL lease connection: %w", err)
	}
	s.listener.db = s.database
	if s.listener.pool, err = pgxpool.NewWithConfig(ctx, single.Copy()); err != nil {
		return nil, fmt.Errorf("open the PostgreSQL connection that listens: %w", err)
	}
	s.failover.use(s.pool, s.leases, s.listener.pool)
	if err := s.pool.Ping(ctx); err != nil {
		return nil, fmt.Errorf("reach PostgreSQL: %w", err)
	}
	return s, nil
}

// Close waits for connections in use to be returned and closes them all.
func (s *Store) Close() {
	s.listener.close()
	for _, pool := range []*pgxpool.Pool{s.pool, s.leases, s.listener.pool} {
		if pool != nil {
			pool.Close()
		}
	}
	if s.hosts != nil {
		s.hosts.close()
	}
}

// ErrReadOnly says that PostgreSQL answers but accepts no writes: it is a standby, or is configured so.
var ErrReadOnly = errors.New("store: PostgreSQL is read-only")

// ErrFull says that PostgreSQL answers but has no room to store anything more.
var ErrFull = errors.New("store: the disk of PostgreSQL is full")

// diskFull is the SQLSTATE of a statement that found no room.
const diskFull = "53100"

// Writable returns ErrReadOnly if PostgreSQL accepts no writes, and ErrFull if it has no room for them.
// https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-TRANSACTION-READ-ONLY
func (s *Store) Writable(ctx context.Context) error {
	readOnly, err := oneRow(ctx, s.pool, pgx.RowTo[bool], "SELECT current_setting('transaction_read_only')::boolean")
	if err == nil && readOnly {
		s.failover.reconnect() // only this connection may be: see inherited
		err = ErrReadOnly
	}
	if err == nil && s.full.Load() > 0 {
		err = s.lookForRoom(ctx)
	}
	return err
}

// lookForRoom finds out whether PostgreSQL has room again, by a table that takes some and is never committed. Other
// statements may succeed on a full disk, because there is room in the tables that they change.
func (s *Store) lookForRoom(ctx context.Context) error {
	found := s.full.Load()
	err := s.exec(ctx, `DO $$ BEGIN
		EXECUTE format('CREATE TABLE room_%s AS SELECT repeat(md5(n::text), 30) FROM generate_series(1, 100) AS n',
			pg_backend_pid());
		RAISE EXCEPTION 'there is room' USING ERRCODE = '`+roomLeft+`';
	END $$`)
	switch code := refusal(err); {
	case code == diskFull:
		return ErrFull
	case code == roomLeft || !errors.Is(err, ErrUnavailable): // it may not be allowed to create a table
		s.full.CompareAndSwap(found, 0) // unless another statement has just found that it is full
		return nil
	}
	return err
}

// roomLeft is the SQLSTATE with which lookForRoom undoes what it did.
const roomLeft = "MB001"

// laterOf is the SQL for now() or, if that is more than an hour behind it, the time of this process in the parameter.
// What is kept for some days from a wrong time in the past would be gone as soon as the clock is right.
func laterOf(parameter string) string {
	at := parameter + "::timestamptz"
	return "CASE WHEN " + at + " > now() + interval '1 hour' THEN " + at + " ELSE now() END"
}

// PoolStat returns the figures of the connection pool.
func (s *Store) PoolStat() *pgxpool.Stat { return s.pool.Stat() }

// oneRow runs a query that yields at most one row.
func oneRow[T any](ctx context.Context, pool *pgxpool.Pool, scan pgx.RowToFunc[T], sql string, args ...any) (T, error) {
	v, err := query(ctx, statementTime, pool, pgx.CollectExactlyOneRow, scan, sql, args...)
	if errors.Is(err, pgx.ErrNoRows) {
		return v, ErrNotFound
	}
	return v, err
}

// allRows runs a query that yields any number of rows.
func allRows[T any](ctx context.Context, pool *pgxpool.Pool, scan pgx.RowToFunc[T], sql string,
	args ...any) ([]T, error) {
	return query(ctx, statementTime, pool, pgx.CollectRows, scan, sql, args...)
}

// named runs a query whose rows are a name and a value.
func named[V any](ctx context.Context, pool *pgxpool.Pool, sql string, args ...any) (map[string]V, error) {
	type row struct {
		Name  string
		Value V
	}
	rows, err := allRows(ctx, pool, pgx.RowToStructByPos[row], sql, args...)
	values := make(map[string]V, len(rows))
	for _, r := range rows {
		values[r.Name] = r.Value
	}
	return values, err
}

// scanned is allRows for a background statement that reads whole tables.
func scanned[T any](ctx context.Context, pool *pgxpool.Pool, sql string, args ...any) ([]T, error) {
	return query(ctx, scanTime, pool, pgx.CollectRows, pgx.RowToStructByPos[T], sql, args...)
}

// scanTime bounds such a statement.
const scanTime = time.Minute

func query[T, R any](ctx context.Context, limit time.Duration, pool *pgxpool.Pool,
	collect func(pgx.Rows, pgx.RowToFunc[T]) (R, error), scan pgx.RowToFunc[T], sql string, args ...any) (r R, err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := acquire(limited, pool)
	if err != nil {
		return r, explain(ctx, err)
	}
	defer conn.Release()
	rows, err := conn.Query(limited, sql, args...)
	if err != nil {
		return r, explain(ctx, err)
	}
	r, err = collect(rows, scan)
	return r, explain(ctx, err)
}

// errMalformed replaces pgx's own error, which may quote the password.
var errMalformed = errors.New("parse the PostgreSQL URL: it is malformed, or names files that cannot be read")

// parseURL reads a URL or a key=value string, sslmode included. In a URL, sslrootcert may also be the certificate
// itself, in PEM: a service of Cloud Foundry has no files.
func parseURL(text string) (*pgxpool.Config, error) {
	u, err := url.Parse(text)
	if err != nil || !strings.Contains(u.Query().Get("sslrootcert"), "-----BEGIN CERTIFICATE-----") {
		cfg, err := pgxpool.ParseConfig(text)
		if err != nil {
			return nil, errMalformed
		}
		return cfg, nil
	}
	file, err := os.CreateTemp("", "postgres-ca-*.pem") // pgx reads it once, in ParseConfig
	if err != nil {
		return nil, fmt.Errorf("write the CA of PostgreSQL for its driver: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // it holds no secret
	query := u.Query()
	_, err = file.WriteString(query.Get("sslrootcert"))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("write the CA of PostgreSQL for its driver: %w", err)
	}
	query.Set("sslrootcert", file.Name())
	u.RawQuery = query.Encode()
	return parseURL(u.String())
}

// CheckURL checks a URL without connecting. The error quotes no part of the URL.
func CheckURL(text string) error {
	_, err := parseURL(text)
	return err
}

// batchRows is how many rows one statement of background work reads, changes or deletes, so that it takes some
// milliseconds however many rows there are.
const batchRows = 1000

// rest waits between two such statements for as long as the first took.
func rest(ctx context.Context, since time.Time) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Since(since)):
		return nil
	}
}

// Clock reads the time of PostgreSQL.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	return oneRow(ctx, s.pool, pgx.RowTo[time.Time], "SELECT now()")
}
