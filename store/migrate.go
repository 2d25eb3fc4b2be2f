package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/tern/v2/migrate"

	"mysql-broker/store/migrations"
)

// Migrate brings the schema of the database at url to the present version and returns that version. Brokers that
// start at the same time take turns (tern holds an advisory lock); a schema that is newer is left as it is, so that
// the older binary of a rolling upgrade keeps running.
func Migrate(ctx context.Context, url string, options ...Option) (version int32, err error) {
	conn, err := connectPrimary(ctx, url, options...)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	m, err := migrate.NewMigrator(ctx, conn, "schema_version")
	if err != nil {
		return 0, fmt.Errorf("prepare the migrations: %w", err)
	}
	if err := m.LoadMigrations(migrations.Files); err != nil {
		return 0, fmt.Errorf("load the migrations: %w", err)
	}
	present, err := m.GetCurrentVersion(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the schema version: %w", err)
	}
	if int(present) > len(m.Migrations) {
		return present, nil
	}
	if err := m.Migrate(ctx); err != nil {
		return 0, fmt.Errorf("migrate the schema: %w", err)
	}
	return int32(len(m.Migrations)), nil
}

// connectPrimary opens one connection, to the host that accepts writes if the URL names several.
func connectPrimary(ctx context.Context, url string, options ...Option) (*pgx.Conn, error) {
	cfg, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	for _, apply := range options {
		apply(cfg)
	}
	primary, err := primaryOf(ctx, cfg.ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("reach PostgreSQL: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, primary)
	if err != nil {
		return nil, fmt.Errorf("reach PostgreSQL: %w", err)
	}
	return conn, nil
}

// CheckDatabase returns an error unless a broker can start on the PostgreSQL at url. It changes nothing.
func CheckDatabase(ctx context.Context, url string) error {
	conn, err := connectPrimary(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var mayCreate, readOnly bool
	err = conn.QueryRow(ctx, `SELECT coalesce(has_schema_privilege(current_schema(), 'CREATE'), false),
		pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean`).Scan(&mayCreate, &readOnly)
	switch {
	case err != nil:
		return fmt.Errorf("ask PostgreSQL for privileges: %w", err)
	case readOnly:
		return ErrReadOnly
	case !mayCreate:
		return errors.New("the role may not create tables; as the owner of the database, run: " +
			"GRANT CREATE, USAGE ON SCHEMA public TO " + pgx.Identifier{conn.Config().User}.Sanitize())
	}
	return nil
}

// SchemaVersion is the version that Migrate brings the schema to.
func SchemaVersion() int {
	files, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		panic(err) // only for a pattern that is malformed
	}
	return len(files)
}
