//go:build !faults

package stage

import (
	"testing"

	"mysql-broker/test/servers"
)

// TestStage fails, so that nobody takes a run without fault points for one with them.
func TestStage(t *testing.T) {
	servers.Needed(t)
	t.Fatal("brokers pass no fault points in this build: go test -tags faults ./test/stage")
}
