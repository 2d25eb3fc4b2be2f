package mysqladmin

import "testing"

// Most brokers trace nothing: their statements must not pay for those that do.
func TestUntracedStatementsCostNothing(t *testing.T) {
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		_, span := startSpan(ctx, "server", "", "SELECT 1")
		endSpan(span, nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
