package task_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// A task counts as stalled unless it finishes steps, does more than before, or waits for its turn.
func TestStalled(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	s := servers.OpenStore(t, url)
	db, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer db.Close(context.Background())
	anHourLater := func() {
		t.Helper()
		if _, err := db.Exec(t.Context(), "UPDATE task SET created_at = created_at - interval '1 hour', "+
			"progressed_at = progressed_at - interval '1 hour'"); err != nil {
			t.Error(err)
		}
	}
	expect := func(after string, stalled bool) {
		t.Helper()
		stats, err := s.Tasks.Stats(t.Context())
		got := stats.Stalled > 30*time.Minute
		assert.True(t, err == nil && got == stalled && stats.Oldest >= stats.Stalled, "after %s: %+v, %v", after, stats, err)
	}
	attempts := 0
	first := task.Step{Name: "first", Do: func(ctx context.Context, run *task.Run) error {
		attempts++
		if attempts > 1 {
			expect("waiting for its turn", false)
			anHourLater()
			return nil
		}
		anHourLater()
		expect("an hour", true)
		for _, r := range []struct {
			sentence, work string
			done           uint64
			further        bool
		}{{"5 MiB", "copy", 5, true}, {"another sentence", "copy", 5, false}, {"an attempt begins anew", "copy", 3, false},
			{"6 MiB", "copy", 6, true}, {"other work begins", "compare", 1, true}} {
			anHourLater()
			assert.NoError(t, run.ReportDone(ctx, r.sentence, r.work, r.done))
			expect(r.sentence, !r.further)
		}
		anHourLater()
		assert.NoError(t, run.Advance(ctx, "a part is done"))
		expect("a part of the step", false)
		anHourLater()
		assert.NoError(t, run.ReportDone(ctx, "1 MiB of the next part", "copy", 1))
		expect("the beginning of the next part", false)
		anHourLater()
		assert.NoError(t, run.Report(ctx, "a sentence"))
		expect("a sentence without figures", true)
		assert.NoError(t, run.ReportWork(ctx, "others work"))
		expect("the work of others", false)
		anHourLater()
		return task.Queued(time.Millisecond, "Waiting")
	}}
	second := task.Step{Name: "second", Do: func(context.Context, *task.Run) error {
		expect("a step", false)
		return nil
	}}
	recorded := record(t, s, store.NewTask{})
	start(t, s, task.Workflow{Steps: []task.Step{first, second}})
	succeeds(t, s, recorded.ID)
}
