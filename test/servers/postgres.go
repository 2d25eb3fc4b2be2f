package servers

import (
	"context"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Postgres returns the URL of a new, empty database that is dropped when the test ends.
func Postgres(t testing.TB) string {
	t.Helper()
	ctx := context.Background() // the test's own has ended by the time of its cleanup
	server, err := url.Parse(postgresURL(t))
	if err != nil {
		t.Fatalf("%s is no URL", PostgresURLVar) // err would show its password
	}
	admin, err := pgx.Connect(ctx, server.String())
	if err != nil {
		t.Fatalf("connect to PostgreSQL: %v", err)
	}
	name := "test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		t.Fatalf("create a test database: %v", err)
	}
	t.Cleanup(func() {
		defer admin.Close(ctx)
		if _, err := admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("drop the test database: %v", err)
		}
	})
	database := *server
	database.Path = "/" + name
	return database.String()
}

func postgresURL(t testing.TB) string {
	t.Helper()
	needServers(t)
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
