package app

import (
	"context"

	"github.com/exaring/otelpgx"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/store"
)

// openStore also records the keyset in the PostgreSQL database, unless another one is recorded there.
func (a *App) openStore(ctx context.Context) (end ending, err error) {
	options := []store.Option{store.WithDialer(a.cfg.Dial)}
	if a.traces != nil {
		options = append(options, store.WithTracer(otelpgx.NewTracer(otelpgx.WithTracerProvider(a.traces))))
	}
	if a.store, err = openMigrated(ctx, a.cfg, options...); err != nil {
		return end, err
	}
	end.stop = a.store.Close
	a.store.ActAs(store.Actor{Platform: store.ByBroker})
	if err := a.store.Keys.AdoptKeyset(ctx); err != nil {
		return end, err
	}
	a.lockKey, err = a.store.Keys.SessionLockKey(ctx)
	return end, err
}

// openMigrated migrates the schema first.
func openMigrated(ctx context.Context, cfg config.Config, options ...store.Option) (*store.Store, error) {
	if _, err := store.Migrate(ctx, cfg.PostgresURL, options...); err != nil {
		return nil, err
	}
	return store.Open(ctx, cfg.PostgresURL, cfg.Keys, options...)
}

func withStore(ctx context.Context, cfg config.Config, fn func(*store.Store) error) error {
	s, err := openMigrated(ctx, cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	s.ActAs(Operator())
	return fn(s)
}
