package servers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/url"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"mysql-broker/store"
	"mysql-broker/store/migrations"
)

// templateName depends on the migrations, so that a server which outlives them has a template for each state of them.
var templateName = sync.OnceValues(func() (string, error) {
	hash := sha256.New()
	files, err := fs.Glob(migrations.Files, "*")
	if err != nil {
		return "", err
	}
	for _, file := range files {
		text, err := fs.ReadFile(migrations.Files, file)
		if err != nil {
			return "", err
		}
		hash.Write([]byte(file))
		hash.Write(text)
	}
	return "migrated_" + hex.EncodeToString(hash.Sum(nil)[:8]), nil
})

// template returns the name of a database that was migrated. The first test on a server that asks for it creates it;
// all others wait, in other test binaries too.
func template(ctx context.Context, admin *pgxpool.Pool, server *url.URL) (name string, err error) {
	if name, err = templateName(); err != nil {
		return "", err
	}
	return name, admin.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		if made, err := isTemplate(ctx, conn, name); made || err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(hashtext($1))", name); err != nil {
			return err
		}
		defer conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock_all()")
		if made, err := isTemplate(ctx, conn, name); made || err != nil {
			return err
		}
		return makeTemplate(ctx, conn, server, name)
	})
}

func isTemplate(ctx context.Context, conn *pgxpool.Conn, name string) (yes bool, err error) {
	const query = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)"
	return yes, conn.QueryRow(ctx, query, name).Scan(&yes)
}

// makeTemplate replaces what a test binary has left that was killed. Nobody can connect to the template, because
// PostgreSQL copies no database that is in use.
func makeTemplate(ctx context.Context, conn *pgxpool.Conn, server *url.URL, name string) error {
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + name + " WITH (FORCE)", "CREATE DATABASE " + name} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	if _, err := store.Migrate(ctx, named(server, name)); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false"); err != nil {
		return err
	}
	const awaitEnd = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = $1"
	if _, err := conn.Exec(ctx, awaitEnd, name); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, "ALTER DATABASE "+name+" IS_TEMPLATE true")
	return err
}

// renew gives a copy of the template what migrations make at random: no two brokers have the same. The row in mark is
// as if the migration itself had written it: see store/hold.go.
func renew(ctx context.Context, database string) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, `UPDATE mark SET identity = gen_random_uuid()::text, written_by = pg_current_xact_id()::xid;
		UPDATE secret SET value = gen_random_uuid()::text || gen_random_uuid()::text`)
	return err
}
