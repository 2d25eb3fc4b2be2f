package backups

import (
	"context"
	"fmt"

	"mysql-broker/provisioner/archive"
	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/task"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/store"
)

// markKey is where in an archive of binary logs a task has taken its backup.
const markKey task.Key[store.BackupPosition] = "mark"

// mark records in the manifest of a backup where in the archive of the server's binary logs it is taken, if there is
// one.
func (b backingUp) mark(ctx context.Context, admin *mysqladmin.Server, m *backup.Manifest, o *transfer.Options) error {
	if !b.PlanOf(b.instance).ArchiveLogs || b.instance.Location.Shared() {
		return nil
	}
	has, err := admin.BinaryLog.Files(ctx)
	if err != nil || !has.On {
		return err
	}
	l, err := archive.Begin(ctx, b.Store, b.instance, has)
	if err != nil {
		return fmt.Errorf("record the archive of binary logs: %w", err)
	}
	if l.Server != b.instance.Location.Server {
		return nil
	}
	mark := &backup.Mark{Log: l.ID, Database: b.instance.Database}
	m.BinaryLog = mark
	o.Locked = func(ctx context.Context) error {
		now, err := admin.BinaryLog.Files(ctx)
		mark.At, mark.Time = now.End, now.Now
		return err
	}
	o.Described = func(ctx context.Context) error {
		now, err := admin.BinaryLog.Files(ctx)
		mark.Settled = now.End
		return err
	}
	return nil
}
