package servers_test

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// A copied schema has all that a migrated one has, and as little in common with another copy as a migrated one.
func TestPostgresIsLikeMigrated(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	migrated := servers.EmptyPostgres(t)
	version, err := store.Migrate(ctx, migrated)
	require.NoError(t, err)
	tables, rows := contents(t, migrated)
	for range 2 {
		copied := servers.Postgres(t)
		v, err := store.Migrate(ctx, copied)
		assert.True(t, v == version && err == nil, "the copy has version %d instead of %d, %v", v, version, err)
		has, found := contents(t, copied)
		assert.True(t, slices.Equal(has, tables) && len(found) == len(rows),
			"a copy has the tables\n%v\nand the rows\n%v\ninstead of\n%v\nand\n%v", has, found, tables, rows)
		for _, row := range found {
			assert.False(t, slices.Contains(rows, row), "two databases have the row %s", row)
		}
		rows = found
		held, err := servers.OpenStore(t, copied).Recovery.Hold(ctx)
		assert.True(t, held == nil && err == nil, "a new broker takes a copy for a restored backup: %+v, %v", held, err)
	}
}

// contents returns the names of all tables, and their rows except the schema's version.
func contents(t *testing.T, url string) (tables, rows []string) {
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	tables = texts(t, conn, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1")
	for _, table := range tables {
		if table != "schema_version" {
			rows = append(rows, texts(t, conn, "SELECT '"+table+": ' || t::text FROM "+table+" t")...)
		}
	}
	return tables, rows
}

func texts(t *testing.T, conn *pgx.Conn, query string) []string {
	found, err := conn.Query(t.Context(), query)
	require.NoError(t, err)
	all, err := pgx.CollectRows(found, pgx.RowTo[string])
	require.NoError(t, err)
	return all
}
