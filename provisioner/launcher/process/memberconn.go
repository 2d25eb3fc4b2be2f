package process

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/launcher/mysqld"
)

const (
	memberTime = 3 * time.Second // to log in to a member, and to ask for its state
	joinTime   = 30 * time.Second
)

// memberConn is a connection to a member of a group, as mysqld.GroupUser.
type memberConn struct {
	ctx  context.Context
	conn *sql.Conn
}

func (c memberConn) exec(statements ...string) error {
	for _, statement := range statements {
		if _, err := c.conn.ExecContext(c.ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// onMember runs fn on a connection through the member's socket.
func (l *Launcher) onMember(ctx context.Context, m serverDir, fn func(memberConn) error) error {
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	password, err := m.groupPassword()
	if err != nil {
		return fmt.Errorf("server %s: %w", m.id, err)
	}
	dir, err := os.Open(m.dataDir())
	if err != nil {
		return fmt.Errorf("server %s: %w", m.id, err)
	}
	defer dir.Close()
	cfg := socketLogin(dir)
	cfg.User, cfg.Passwd = mysqld.GroupUser, password
	cfg.InterpolateParams, cfg.Logger = true, &mysql.NopLogger{}
	cfg.Timeout = memberTime
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err == nil {
		defer conn.Close()
		err = fn(memberConn{ctx, conn})
	}
	if err != nil {
		return fmt.Errorf("server %s: %w", m.id, err)
	}
	return nil
}
