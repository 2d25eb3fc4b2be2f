package servers

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// PostgresAhead returns a URL of a database whose connections are told a time that is ahead by an interval of
// PostgreSQL's. They find the functions of a schema of their own before those of PostgreSQL:
// https://www.postgresql.org/docs/current/ddl-schemas.html#DDL-SCHEMAS-CATALOG
func PostgresAhead(t testing.TB, database, interval string) string {
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	const function = `CREATE OR REPLACE FUNCTION ahead.%s() RETURNS timestamptz %s LANGUAGE sql
		AS $$ SELECT pg_catalog.%[1]s() + interval '%[3]s' $$;`
	_, err = conn.Exec(t.Context(), "CREATE SCHEMA IF NOT EXISTS ahead;"+fmt.Sprintf(function, "now", "STABLE", interval)+
		fmt.Sprintf(function, "clock_timestamp", "VOLATILE", interval))
	require.NoError(t, err)
	u, err := url.Parse(database)
	require.NoError(t, err)
	query := u.Query()
	query.Set("search_path", "ahead,pg_catalog,public")
	u.RawQuery = query.Encode()
	return u.String()
}
