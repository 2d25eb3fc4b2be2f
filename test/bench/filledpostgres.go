package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"mysql-broker/store"
)

// fullDatabase is a PostgreSQL database as brokers leave it after years.
type fullDatabase struct {
	url, keyset string
	instances   int
}

const fullInstances = 1_000_000

//go:embed fill.sql
var fill string

// fullDatabase makes one.
func (b *bench) fullDatabase(ctx context.Context) (f fullDatabase, err error) {
	f.instances = fullInstances
	if b.options.quick {
		f.instances /= 20
	}
	if f.keyset, err = store.NewKeyset(); err != nil {
		return f, err
	}
	keys, err := store.ParseKeyset(f.keyset)
	if err != nil {
		return f, err
	}
	serviceID, small, err := b.plan("shared-small")
	if err != nil {
		return f, err
	}
	_, large, err := b.plan("shared-large")
	if err != nil {
		return f, err
	}
	if f.url, err = b.newDatabase(ctx); err != nil {
		return f, err
	}
	if _, err := store.Migrate(ctx, f.url); err != nil {
		return f, err
	}
	conn, err := pgx.Connect(ctx, f.url)
	if err != nil {
		return f, err
	}
	defer conn.Close(ctx)
	since := time.Now()
	if _, err := conn.Exec(ctx, fill); err != nil {
		return f, err
	}
	if _, err := conn.Exec(ctx, "SELECT pg_temp.fill($1, $2, $3, $4)", f.instances, keys.Mark(), serviceID,
		[]string{small, large}); err != nil {
		return f, err
	}
	for _, statement := range []string{"VACUUM ANALYZE", "CHECKPOINT"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return f, err
		}
	}
	fmt.Fprintf(os.Stderr, "filled PostgreSQL with %d instances in %v\n", f.instances, time.Since(since).Round(time.Second))
	return f, nil
}
