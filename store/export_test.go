package store

import "context"

// Exec runs any statement.
func (t *Tx) Exec(ctx context.Context, sql string) error {
	_, err := t.tx.Exec(ctx, sql)
	return err
}
