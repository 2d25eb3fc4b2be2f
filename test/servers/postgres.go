package servers

import (
	"context"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Postgres returns the URL of a new database with the present schema, like that of a broker which has started but has
// not been used. It is dropped when the test ends.
func Postgres(t testing.TB) string {
	server, admin := postgresServer(t)
	name, err := template(t.Context(), admin, server)
	require.NoError(t, err, "migrate a database to copy")
	// As versions before 15 do: logging a copy page by page takes three times the processor time.
	const byFiles = "SELECT CASE WHEN current_setting('server_version_num')::int < 150000 THEN '' ELSE 'STRATEGY file_copy' END"
	var strategy string
	require.NoError(t, admin.QueryRow(t.Context(), byFiles).Scan(&strategy))
	database := newDatabase(t, server, admin, "TEMPLATE "+name+" "+strategy)
	require.NoError(t, renew(t.Context(), database), "renew what a schema has of its own")
	return database
}

// EmptyPostgres returns the URL of a new, empty database, for tests of migrations. It is dropped when the test ends.
func EmptyPostgres(t testing.TB) string {
	server, admin := postgresServer(t)
	return newDatabase(t, server, admin, "")
}

func newDatabase(t testing.TB, server *url.URL, admin *pgxpool.Pool, options string) string {
	ctx := context.Background() // the test's own has ended by the time of its cleanup
	name := "test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	_, err := admin.Exec(ctx, "CREATE DATABASE "+name+" "+options)
	require.NoError(t, err, "create a test database")
	t.Cleanup(func() {
		_, err := admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
		assert.NoError(t, err, "drop the test database")
	})
	return named(server, name)
}

// named is the URL of a database of a server.
func named(server *url.URL, database string) string {
	u := *server
	u.Path = "/" + database
	return u.String()
}

// admin has this test binary's connections to the server that serves its tests, which last until the binary ends.
var admin struct {
	lock sync.Mutex
	pool *pgxpool.Pool
}

func postgresServer(t testing.TB) (*url.URL, *pgxpool.Pool) {
	t.Helper()
	server, err := url.Parse(postgresURL(t))
	if err != nil {
		t.Fatalf("%s is no URL", PostgresURLVar) // err would show its password
	}
	admin.lock.Lock()
	defer admin.lock.Unlock()
	if admin.pool == nil {
		cfg, err := pgxpool.ParseConfig(server.String())
		require.NoError(t, err, PostgresURLVar)
		cfg.MaxConns = 2
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // each statement names another database
		admin.pool, err = pgxpool.NewWithConfig(context.Background(), cfg)
		require.NoError(t, err, "connect to PostgreSQL")
	}
	return server, admin.pool
}

func postgresURL(t testing.TB) string {
	Needed(t)
	if u := os.Getenv(PostgresURLVar); u != "" {
		return u
	}
	var u string
	withOwn(t, func(f *Fleet) (err error) {
		u, err = f.PostgresURL(context.Background())
		return err
	})
	return u
}
