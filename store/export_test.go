package store

import "context"

// Exec runs any statement.
func (t *Tx) Exec(ctx context.Context, sql string) error {
	t.write("test", sql)
	return t.flush(ctx, statementTime)
}
