// Package limits has the time limits of tests: one for all waits, and none for how fast something is unless the machine
// is calm.
package limits

import "time"

// Stuck bounds every wait of a test. A busy machine may take a hundred times as long as an idle one; only a test that
// fails waits to the end.
const Stuck = 10 * time.Minute
