package testdrive

import (
	"context"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"mysql-broker/cmd/mysql-broker/dev/pgcluster"
	"mysql-broker/test/limits"
)

// PostgresPair is a primary and its standby.
type PostgresPair struct {
	Primary, Standby *Postgres
	URL              string // names both servers, the primary first
}

// StartPostgresPair starts a primary whose commits wait for the standby if synchronous is true.
func StartPostgresPair(t testing.TB, synchronous bool) *PostgresPair {
	t.Helper()
	p := &PostgresPair{Primary: StartPostgres(t)}
	p.Standby = startPostgres(t, pgcluster.Config{Primary: p.Primary.URL})
	// By default, a standby that lags behind cancels any query that its replay conflicts with (40001). Here replay waits.
	p.Standby.Exec(t, "ALTER SYSTEM SET max_standby_streaming_delay = -1")
	p.Standby.Exec(t, "ALTER SYSTEM SET max_standby_archive_delay = -1")
	p.Standby.Exec(t, "SELECT pg_reload_conf()")
	if synchronous {
		p.Primary.Exec(t, "ALTER SYSTEM SET synchronous_standby_names = '*'")
		p.Primary.Exec(t, "SELECT pg_reload_conf()")
	}
	Eventually(t, limits.Stuck, "the standby follows", func() bool {
		return p.Primary.is(t, `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming'
			AND sync_state = $1)`, map[bool]string{true: "sync", false: "async"}[synchronous])
	})
	u, err := url.Parse(p.Primary.URL)
	if err != nil {
		t.Fatal("the URL of the primary is malformed")
	}
	standby, err := url.Parse(p.Standby.URL)
	if err != nil {
		t.Fatal("the URL of the standby is malformed")
	}
	u.Host += "," + standby.Host
	u.RawQuery += "&target_session_attrs=read-write"
	p.URL = u.String()
	return p
}

// Promote makes the standby a primary. It returns when the server accepts writes.
func (p *PostgresPair) Promote(t testing.TB) {
	t.Helper()
	if !p.Standby.is(t, "SELECT pg_promote()") {
		t.Fatal("the standby was not promoted")
	}
}

// Exec runs a statement as the superuser.
func (p *Postgres) Exec(t testing.TB, statement string) {
	t.Helper()
	p.with(t, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statement)
		return err
	})
}

// Has reports whether a query has a row.
func (p *Postgres) Has(t testing.TB, query string) bool {
	t.Helper()
	return p.is(t, "SELECT EXISTS ("+query+")")
}

// is runs a query of one boolean.
func (p *Postgres) is(t testing.TB, query string, args ...any) (yes bool) {
	t.Helper()
	p.with(t, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, query, args...).Scan(&yes)
	})
	return yes
}

func (p *Postgres) with(t testing.TB, fn func(context.Context, *pgx.Conn) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limits.Stuck)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.URL)
	if err == nil {
		defer conn.Close(ctx)
		err = fn(ctx, conn)
	}
	if err != nil {
		t.Fatal(err)
	}
}
