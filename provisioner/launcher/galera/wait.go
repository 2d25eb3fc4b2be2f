package galera

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/launcher/mysqlgroup"
)

// Where a launcher cannot start members itself, one that finds no group starts a server that waits for an order. It
// takes part in nothing, and refuses applications. Its name (wsrep_node_name) says that it waits, and what it has:
// "empty", "incomplete" after it was killed while it got all data, or its position.

// waits begins the name of a member that waits for an order.
const waits = "waits "

// Waiting is the state of such a member. Its Look.Executed is "" if it has no data.
const Waiting = "OFFLINE"

// PositionOf returns that of a member that waits.
func PositionOf(m mysqlgroup.Look) Position {
	var p Position
	var safe string
	at := strings.Replace(m.Executed, ":", " ", 1)
	if _, err := fmt.Sscan(at, &p.Group, &p.Seqno, &safe); err != nil {
		return Position{Seqno: -1}
	}
	p.Safe = safe == "safe"
	return p
}

// Order is what a member that waits is to do.
type Order string

// Orders.
const (
	Begin Order = "begin" // the group
	Join  Order = "join"
)

// orderAge is how long an order is carried out after it was given.
const orderAge = time.Minute

const errFileExists = 1086

// Give gives an order to a member that waits. The server writes it to the file, and ends. Whoever does so holds the
// lock of the member (mysqlgroup.Lock). An order that was given before stays, and is void after orderAge.
func Give(ctx context.Context, member *sql.Conn, file string, order Order) error {
	_, err := member.ExecContext(ctx, "SELECT CONCAT(?, ' ', UNIX_TIMESTAMP(), '\\n') INTO DUMPFILE '"+file+"'",
		string(order))
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok && e.Number == errFileExists {
		var other bool
		err = member.QueryRowContext(ctx, `SELECT SUBSTRING_INDEX(LOAD_FILE(?), ' ', 1) <> ?
			AND CAST(SUBSTRING_INDEX(LOAD_FILE(?), ' ', -1) AS INT) > UNIX_TIMESTAMP() - ?`, file, string(order), file,
			orderAge.Seconds()).Scan(&other)
		if err == nil && other {
			err = errors.New("another order was given to the member")
		}
	}
	if err != nil {
		return fmt.Errorf("give the order to %s: %w", order, err)
	}
	return End(ctx, member)
}

// End ends the server of a member, which may not answer any more.
func End(ctx context.Context, member *sql.Conn) error {
	_, err := member.ExecContext(ctx, "SHUTDOWN")
	if errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, driver.ErrBadConn) {
		return nil
	}
	return err
}

// Admit lets a session ask a member that takes no part in its group.
func Admit(ctx context.Context, member *sql.Conn) error {
	_, err := member.ExecContext(ctx, "SET SESSION wsrep_dirty_reads=ON")
	return err
}
