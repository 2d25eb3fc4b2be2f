package mysqladmin

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/go-sql-driver/mysql"
)

// CheckLogin opens a new connection with cfg and that default database, runs a query and closes the connection. It
// proves that credentials work before the broker returns them.
func CheckLogin(ctx context.Context, cfg Config, database string) error {
	if err := login(ctx, cfg, database); err != nil {
		return fmt.Errorf("log in as %s at %s: %w", cfg.User, cfg.Addr, err)
	}
	return nil
}

func login(ctx context.Context, cfg Config, database string) (err error) {
	db, err := openOnce(cfg, database)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // nothing is lost with a connection that only read
	var one int
	return db.QueryRowContext(ctx, "SELECT 1").Scan(&one)
}

func openOnce(cfg Config, database string) (*sql.DB, error) {
	driverConfig, err := cfg.driver()
	if err != nil {
		return nil, err
	}
	driverConfig.DBName = database
	connector, err := mysql.NewConnector(driverConfig)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// Exec runs one statement on a new connection.
func Exec(ctx context.Context, cfg Config, statement string) error {
	db, err := openOnce(cfg, "")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // the statement's outcome is known
	if _, err := db.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("server %s: %s: %w", cfg.Name, statement, err)
	}
	return nil
}
