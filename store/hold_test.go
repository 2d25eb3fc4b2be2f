package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
)

// Tasks that are recorded on servers stay known; otherwise PostgreSQL would be held without a restore. The mark does
// not go back, which would hide a restore.
func TestForgottenTasksHoldNothing(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		created string        // when the tasks were recorded; all ended at 50 days ago
		age     time.Duration // of those to forget: 0 is a clock that is far ahead
		next    bool          // a task follows before servers are told again
	}{
		"idle for long":                       {"now() - '51 days'::interval", 30 * day, false},
		"recorded while the clock was ahead":  {"now() + '300 days'::interval", 30 * day, true},
		"forgotten while the clock was ahead": {"now() - '1 hour'::interval", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, ctx := servers.Postgres(t), t.Context()
			s := servers.OpenStore(t, url)
			newTask(t, s, provisionOf("before"))
			newTask(t, s, provisionOf("told"))
			exec(t, url, "UPDATE task SET state = 'succeeded', finished_at = now() - '50 days'::interval, created_at = "+
				c.created)
			told, err := s.Recovery.Mark(ctx)
			require.NoError(t, err)
			if c.next {
				newTask(t, s, provisionOf("next"))
			}
			_, err = s.Tasks.DeleteFinished(ctx, c.age)
			require.NoError(t, err)
			knows, err := s.Tasks.Knows(ctx, told.TaskID, told.TaskAt, 28*day)
			assert.True(t, err == nil && knows, "a task that servers were told of is known: %v, %v", knows, err)
			m, err := s.Recovery.Mark(ctx)
			assert.True(t, err == nil && m.TaskID >= told.TaskID,
				"the mark went from task_%d to task_%d, %v", told.TaskID, m.TaskID, err)
		})
	}
}
