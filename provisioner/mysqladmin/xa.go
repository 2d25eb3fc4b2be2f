package mysqladmin

import (
	"context"
	"database/sql"
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

// Forgotten lists the prepared XA transactions of a server, as XA ROLLBACK takes them, if one of them has no connection
// and is older than age: they keep their locks, and prevent databases from being dropped. Neither flavour shows which
// tables they have locked, nor when they were prepared. information_schema.innodb_trx shows the age of those without a
// connection, but not their names. If the broker's account lacks the privilege to list them, which CheckPrivileges
// reports, there are none. https://dev.mysql.com/doc/refman/8.4/en/information-schema-innodb-trx-table.html
func (s *Server) Forgotten(ctx context.Context, age time.Duration) (xids []string, err error) {
	xids, err = preparedXA(ctx, s.reads)
	if hasNumber(err, errSpecificDenied, errXAResource) {
		return nil, nil
	}
	old := 0
	if len(xids) > 0 {
		err = s.reads.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.innodb_trx
			WHERE trx_mysql_thread_id = 0 AND trx_started <= NOW() - INTERVAL ? SECOND`, int64(age.Seconds())).Scan(&old)
	}
	if old == 0 {
		xids = nil
	}
	return xids, s.explain("list the prepared XA transactions", err)
}
