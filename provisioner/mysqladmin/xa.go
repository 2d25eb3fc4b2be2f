package mysqladmin

import (
	"context"
	"fmt"
	"strings"
)

// explainLockWait adds the server's prepared XA transactions to the error of a statement that waited too long for
// locks. They outlive their connection, so that no kill releases their locks.
// https://dev.mysql.com/doc/refman/8.4/en/xa-states.html
func (s *Session) explainLockWait(ctx context.Context, err error) error {
	prepared, recoverErr := preparedXA(ctx, s.conn)
	if recoverErr != nil {
		s.failed = true
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
	rows, err := on.QueryContext(ctx, "XA RECOVER")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	for rows.Next() {
		var format int64
		var globalLength, branchLength int
		var data []byte
		if err := rows.Scan(&format, &globalLength, &branchLength, &data); err != nil {
			return nil, err
		}
		if len(data) != globalLength+branchLength {
			return nil, fmt.Errorf("an XID of %d bytes, not %d and %d", len(data), globalLength, branchLength)
		}
		xids = append(xids, fmt.Sprintf("X'%x',X'%x',%d", data[:globalLength], data[globalLength:], format))
	}
	return xids, rows.Err()
}
