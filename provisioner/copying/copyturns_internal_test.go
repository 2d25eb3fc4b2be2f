package copying

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/store"
)

// One organization takes all turns that it can get, and waits for more. Another one begins at once, a third one has the
// next that is free, and who waits for something else has none.
func TestCopyTurnsGoRoundByOrganization(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCopyTurns(16, nil) // eight turns, two of each server
		begin := func(id int64, server, organization string, want bool) {
			t.Helper()
			time.Sleep(copyTurnInterval / 10)
			assert.Equal(t, want, c.begin(store.Task{ID: id, Server: server, Organization: organization}) == "",
				"task %d on %q of %q", id, server, organization)
		}
		begin(1, "a", "greedy", true)
		begin(2, "a", "greedy", false)
		begin(3, "a", "other", true)
		begin(4, "a", "third", false)
		c.end(1)
		begin(2, "a", "greedy", false) // the third has had none yet
		begin(5, "b", "greedy", true)  // which waits at another server
		begin(4, "a", "third", true)
		c.end(4)
		begin(6, "a", "third", false)
		begin(2, "a", "greedy", true) // its last one was before that of the third
		c.end(3)
		begin(6, "a", "third", true)

		// What is frozen keeps its turn from step to step, and none while it waits.
		c.keep(6)
		begin(7, "a", "other", false)
		begin(6, "a", "third", true)
		c.leave(6)
		begin(7, "a", "other", true)
		begin(6, "a", "third", true)
		c.keep(6)
		c.end(2)
		c.end(7)
		time.Sleep(keepTurn)
		begin(8, "a", "other", true)
		begin(9, "a", "third", true) // the sixth did not go on

		for id := range int64(6) {
			begin(20+id, "", "greedy", id < 5) // with that on b, three quarters
		}
		time.Sleep(waitsForTurn)
		begin(30, "", "", false)
		c.end(20)
		begin(30, "", "", true)
	})

	c := newCopyTurns(1, nil)
	for id, want := range []bool{true, false} {
		assert.Equal(t, want, c.begin(store.Task{ID: int64(id), Organization: "o"}) == "",
			"of a single turn, task %d: %v", id, !want)
	}
}
