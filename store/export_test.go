package store

import "context"

// InsertInstance records an instance in state Creating on a server that need not have room for it.
func (t *Tx) InsertInstance(i Instance) error {
	_, err := t.insertInstance(i)
	return err
}

// Exec runs any statement.
func (t *Tx) Exec(ctx context.Context, sql string) error {
	t.write("test", sql)
	return t.flush(ctx, statementTime)
}
