package mysqladmin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// explainLockWait adds the server's prepared XA transactions to the error of a statement that waited too long for
// locks. They outlive their connection, so that no kill releases their locks.
// https://dev.mysql.com/doc/refman/8.4/en/xa-states.html
func (on Databases) explainLockWait(ctx context.Context, err error) error {
	prepared, recoverErr := preparedXA(ctx, on.s.conn)
	if recoverErr != nil {
		on.s.failed = true
		return fmt.Errorf("%w (and XA RECOVER: %w)", err, recoverErr)
	}
	if len(prepared) == 0 {
		return err
	}
	return fmt.Errorf("%w; if no client will finish them, end with XA ROLLBACK those of the server's prepared XA "+
		"transactions that hold it: %s", err, strings.Join(prepared, " "))
}

// preparedXA lists prepared XA transactions in the form that XA ROLLBACK takes: hexadecimal, as ids may be any bytes.
func preparedXA(ctx context.Context, on queryer) (xids []string, err error) {
	err = EachRow(ctx, on, "XA RECOVER", func(rows *sql.Rows) error {
		var format int64
		var globalLength, branchLength int
		var data []byte
		if err := rows.Scan(&format, &globalLength, &branchLength, &data); err != nil {
			return err
		}
		if len(data) != globalLength+branchLength {
			return fmt.Errorf("an XID of %d bytes, not %d and %d", len(data), globalLength, branchLength)
		}
		xids = append(xids, fmt.Sprintf("X'%x',X'%x',%d", data[:globalLength], data[globalLength:], format))
		return nil
	})
	return xids, err
}

// Prepared are a server's prepared XA transactions. They outlive their connections, keep their locks, and prevent
// databases from being dropped. Neither flavour shows which tables they have locked, nor when they were prepared.
// information_schema.innodb_trx shows the age of those without a connection, but not their names.
// https://dev.mysql.com/doc/refman/8.4/en/information-schema-innodb-trx-table.html
type Prepared struct {
	XIDs []string // as XA ROLLBACK takes them
	Old  int      // how many transactions without a connection are older than the age asked for
}

// AllOld reports whether all of them have no connection and are older than the age asked for.
func (p Prepared) AllOld() bool { return len(p.XIDs) > 0 && p.Old == len(p.XIDs) }

// Prepared lists the prepared XA transactions and counts those that are older than age. If the broker's account lacks
// the privilege to list them, which CheckPrivileges reports, it returns none.
func (s *Server) Prepared(ctx context.Context, age time.Duration) (p Prepared, err error) {
	p, err = prepared(ctx, s.reads, age)
	if hasNumber(err, errSpecificDenied, errXAResource) {
		return p, nil
	}
	return p, s.explain("list the prepared XA transactions", err)
}

func prepared(ctx context.Context, conn queryer, age time.Duration) (p Prepared, err error) {
	if p.XIDs, err = preparedXA(ctx, conn); err != nil || len(p.XIDs) == 0 {
		return p, err
	}
	err = conn.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.innodb_trx
		WHERE trx_mysql_thread_id = 0 AND trx_started <= NOW() - INTERVAL ? SECOND`, int64(age.Seconds())).Scan(&p.Old)
	return p, err
}

// ErrNotSure is returned by DropBlocked.
var ErrNotSure = errors.New("it is not certain what keeps the database from being dropped")

// DropBlocked is Drop, but rolls back the prepared XA transaction that blocks it, and returns its name.
// It does so only if nothing else can block it: the transaction is the server's only prepared one and older than age,
// and no open transaction of a session is older than the attempt to drop the database, which has killed the sessions of
// the database. Otherwise it returns ErrNotSure, with the error of the attempt.
func (on Databases) DropBlocked(ctx context.Context, name string, age time.Duration) (ended string, err error) {
	began := time.Now()
	err = on.Drop(ctx, name)
	if !hasNumber(err, errLockWaitTimeout) {
		return "", err
	}
	p, asking := prepared(ctx, on.s.conn, age)
	if asking != nil {
		return "", errors.Join(err, asking)
	}
	var open int
	if asking := on.s.conn.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.innodb_trx
		WHERE trx_mysql_thread_id NOT IN (0, CONNECTION_ID()) AND trx_started <= NOW() - INTERVAL ? SECOND`,
		int64(time.Since(began).Seconds())).Scan(&open); asking != nil {
		return "", errors.Join(err, asking)
	}
	if len(p.XIDs) != 1 || !p.AllOld() || open > 0 {
		return "", fmt.Errorf("%w: of the prepared XA transactions %s, %d are old enough; "+
			"open transactions of sessions: %d: %w", ErrNotSure, strings.Join(p.XIDs, " "), p.Old, open, err)
	}
	if err := on.s.exec(ctx, "XA ROLLBACK "+p.XIDs[0]); err != nil {
		return "", fmt.Errorf("end the prepared XA transaction %s: %w", p.XIDs[0], err)
	}
	return p.XIDs[0], on.Drop(ctx, name)
}
