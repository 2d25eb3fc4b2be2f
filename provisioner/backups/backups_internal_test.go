package backups

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/backup/objectstore"
	"mysql-broker/provisioner/binlog"
	"mysql-broker/provisioner/copying"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/memory"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/store"
)

// Only a restore in place gives data back if it fails. A lost database has none.
func TestAdviceAfterAFailedRestore(t *testing.T) {
	t.Parallel()
	for lost, want := range map[bool]string{false: "gets its earlier data back", true: "What was restored is dropped"} {
		says := restoreKind.AdviceOf(store.Task{Request: engine.Request{RestoreID: "b_1", Lost: lost}.JSON()})
		assert.True(t, strings.Contains(says, want) && strings.Contains(says, "earlier data") != lost,
			"lost %t: %q", lost, says)
	}
}

// Applications that log in as soon as their accounts are back must not write into a database that is filled only in part.
func TestAccountsComeBackAfterLostData(t *testing.T) {
	t.Parallel()
	flow := New(&copying.Copier{}, nil).restoreWorkflow(store.Instance{}, engine.Request{Lost: true})
	step := func(name string) int {
		n := slices.IndexFunc(flow.Steps, func(s task.Step) bool { return s.Name == name })
		require.True(t, n >= 0, "no step %q", name)
		return n
	}
	assert.True(t, step("create accounts") >= step("restore"), "the accounts are created before the data is restored")
}

func TestPeriods(t *testing.T) {
	t.Parallel()
	at := func(seconds float64) time.Time {
		return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
	}
	window := func(log string, from, until float64) store.Window {
		return store.Window{LogID: log, From: at(from), Until: at(until)}
	}
	for what, test := range map[string]struct {
		all  []store.Window
		want string
	}{
		"within full seconds": {[]store.Window{window("l", 0.2, 9.9)}, "between 2026-01-01T00:00:01Z and 2026-01-01T00:00:09Z"},
		"two backups of one archive": {[]store.Window{window("l", 5, 9), window("l", 1, 9)},
			"between 2026-01-01T00:00:01Z and 2026-01-01T00:00:09Z"},
		"two archives": {[]store.Window{window("l", 5, 9), window("k", 1, 3)},
			"between 2026-01-01T00:00:05Z and 2026-01-01T00:00:09Z, or between 2026-01-01T00:00:01Z and 2026-01-01T00:00:03Z"},
		"less than a second": {[]store.Window{window("l", 5.1, 5.9)}, ""},
	} {
		assert.Equal(t, test.want, possible(test.all), what)
	}
}

// TestUnsupported checks what users read about logs that cannot be replayed.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 18, 30, 5, 0, time.UTC)
	for want, err := range map[string]error{
		"has a change of the table `t`. Restore to 2026-11-22T18:30:04Z or earlier, or restore a later backup.": &binlog.
			UnsupportedError{What: "a change of the table `t`", At: at},
		"has events of the kind 40. Restore a later backup.": &binlog.UnsupportedError{What: "events of the kind 40"},
		"(MySQL error 1062)": &mysql.MySQLError{Number: 1062},
	} {
		refused, _ := errors.AsType[*transfer.RefusedError](unsupported(err))
		assert.True(t, refused != nil && strings.Contains(refused.Sentence, want), "%v instead of %q", refused, want)
	}
	assert.IsType(t, &mysql.MySQLError{}, unsupported(&mysql.MySQLError{Number: 1205}), "a lock is not waited for")
	refused, _ := errors.AsType[*transfer.RefusedError](unsupported(memory.ErrTooLarge))
	assert.Contains(t, refused.Sentence, "give the broker more memory")
}

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
