package backups

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/backup/objectstore"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
)

// hanging is an object store that does not answer.
type hanging struct{ objectstore.Store }

func (hanging) Delete(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// The deletion of an unfinished backup does not keep an instance busy for as long as the object store hangs.
func TestUnfinishedBackupInAnObjectStoreThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bs := &Backups{vault: &backup.Vault{Objects: hanging{}},
			Servers: &steps.Servers{Engine: &engine.Engine{Log: slog.New(slog.DiscardHandler)}}}
		began := time.Now()
		err := backingUp{Backups: bs, id: "b_1"}.deleteUnfinished(t.Context(), &task.Run{})
		took := time.Since(began)
		assert.True(t, err == nil && took <= 15*time.Second, "it took %s: %v", took, err)
	})
}
