package steps_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// A move or a copy to a server whose disk is full is given up at the first attempt, so that its cleanup makes room for
// the neighbours. Users read what becomes of their instance.
func TestNoRoomAtTheNewPlace(t *testing.T) {
	t.Parallel()
	s, log := servers.Store(t), slog.New(slog.DiscardHandler)
	e := &engine.Engine{Store: s, Log: log, Tasks: task.New(s, map[string]task.Kind{store.Update: {}}, task.Config{Logger: log})}
	t.Cleanup(e.Tasks.Stop)
	on := steps.New(e, nil, func() {}, false)
	for says, moves := range map[string]bool{"stays where it was": true, "create it again": false} {
		for _, number := range []uint16{1021, 1114} {
			n := store.NewTask{InstanceID: fmt.Sprint(moves, number), Kind: store.Update, PlanID: "p"}
			n.Owner, n.LeaseTTL = e.Tasks.Lease()
			var recorded *store.Task
			require.NoError(t, s.InTx(t.Context(), func(tx *store.Tx) error { recorded = tx.InsertTask(n); return nil }))
			attempts := 0
			copying := func(context.Context, *task.Run) error {
				attempts++
				return fmt.Errorf("copy: %w", &mysql.MySQLError{Number: number})
			}
			_, err := e.Tasks.Do(t.Context(), *recorded, task.Workflow{Steps: []task.Step{
				{Name: "copy", Do: on.WithRoom(store.Instance{ID: n.InstanceID}, moves, copying)}}}, time.Now())
			assert.ErrorContains(t, err, says, number)
			assert.Equal(t, 1, attempts)
		}
	}
}
