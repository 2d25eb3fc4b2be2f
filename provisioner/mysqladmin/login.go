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
	return ExecIf(ctx, cfg, statement, func() error { return nil })
}

// idleSeconds is shorter than what remains of a task's lease after its last renewal.
const idleSeconds = 5

// ExecIf is Exec if check returns nil. check is called on an open connection, which the server closes if the statement
// does not follow soon. So the statement of a broker that was paused after the check, and has lost its lease, fails.
func ExecIf(ctx context.Context, cfg Config, statement string, check func() error) error {
	db, err := openOnce(cfg, "")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // the statement's outcome is known
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("server %s: %w", cfg.Name, err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("SET SESSION wait_timeout = %d", idleSeconds)); err != nil {
		return fmt.Errorf("server %s: limit a session: %w", cfg.Name, err)
	}
	if err := check(); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("server %s: %s: %w", cfg.Name, statement, err)
	}
	return nil
}
