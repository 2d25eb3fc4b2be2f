package copying

import "testing"

// The last turn of all, and of a server, is not for copies that run SQL of a tenant.
func TestCopyTurnsOfBootstraps(t *testing.T) {
	t.Parallel()
	c := newCopyTurns(16, nil) // eight turns, two of each server
	begin := func(id int64, server string, bootstraps, want bool) {
		t.Helper()
		if got := c.begin(id, turn{server, bootstraps}) == ""; got != want {
			t.Errorf("task %d on %q: %v, want %v", id, server, got, want)
		}
	}
	begin(1, "a", true, true)
	begin(2, "a", true, false)
	begin(3, "a", false, true)
	begin(4, "a", false, false) // the server has no more
	for id := range int64(6) {
		begin(10+id, "", true, true)
	}
	c.end(3)
	begin(20, "b", true, false)
	begin(21, "b", false, true)
	begin(22, "c", false, false) // there are no more
	c.keep(1)
	begin(1, "a", true, true)
	c.end(1)
	begin(20, "b", true, true)

	c = newCopyTurns(1, nil)
	begin(1, "a", true, true)
	begin(2, "b", false, false)
}
