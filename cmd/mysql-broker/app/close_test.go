package app

import (
	"testing"
	"time"
)

// https://docs.cloudfoundry.org/devguide/deploy-apps/app-lifecycle.html#shutdown
func TestEndBeforeCloudFoundryKills(t *testing.T) {
	t.Parallel()
	const killed = 10 * time.Second // after SIGTERM
	if longest := closeTime + flushTime; drainTime >= closeTime || longest >= killed {
		t.Errorf("requests are waited for %v, and the end takes up to %v", drainTime, longest)
	}
}
