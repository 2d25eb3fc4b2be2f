package steps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// Why no server took a database, from the reason that helps most.
func TestNoPlacement(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	foreign := &FlavourError{Of: mysqladmin.Flavour{}}
	charset := &mysqladmin.CharsetError{Parameter: "charset", Reason: "is unknown"}
	full := 0
	on := New(&engine.Engine{Log: slog.New(slog.DiscardHandler)}, nil, func() { full++ }, false)
	for what, test := range map[string]struct {
		Search
		code  engine.Code
		words string
	}{
		"all are full": {Search{}, engine.Full, "no room"},
		"all of an exclusive plan": {Search{Plan: plan.Plan{Exclusive: true}}, engine.Full,
			"Every server of this plan is taken"},
		"the rest cannot be used": {Search{unusable: down}, engine.Unavailable, "just now"},
		"the rest is of another flavour": {Search{foreign: foreign}, engine.Invalid,
			"Choose another plan. From MySQL to MariaDB, or back, load a dump of mysqldump"},
		"one is down, one another flavour": {Search{foreign: foreign, unusable: down}, engine.Unavailable, "just now"},
		"none has the character set": {Search{refused: charset, unusable: down, foreign: foreign}, engine.Invalid,
			`"charset" is unknown.`},
	} {
		test.Servers = on
		err := test.Failure()
		refusal, refused := errors.AsType[*engine.Error](err)
		assert.True(t, refused && refusal.Code == test.code && strings.Contains(refusal.Sentence, test.words),
			"%s: %v", what, err)
	}
	assert.Equal(t, 2, full, "full servers were counted %d times", full)
	err := (&Search{failed: down}).Failure()
	assert.True(t, err == down, "PostgreSQL does not answer: %v", err)
}

func TestMain(m *testing.M) { servers.Main(m) }

// A move or a copy to a server whose disk is full is given up at the first attempt, so that its cleanup makes room for
// the neighbours. Users read what becomes of their instance.
func TestNoRoomAtTheNewPlace(t *testing.T) {
	t.Parallel()
	s, log := servers.Store(t), slog.New(slog.DiscardHandler)
	e := &engine.Engine{Store: s, Log: log, Tasks: task.New(s, map[string]task.Kind{store.Update: {}}, task.Config{Logger: log})}
	t.Cleanup(e.Tasks.Stop)
	on := New(e, nil, func() {}, false)
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
