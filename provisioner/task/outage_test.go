package task_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// An outage of PostgreSQL is logged once when it begins and once when it ends.
func TestOutageIsLoggedOnce(t *testing.T) {
	t.Parallel()
	proxy, url := testdrive.ProxyURL(t, servers.Postgres(t))
	const beat = time.Second
	var logged syncBuffer
	r := task.New(servers.OpenStore(t, url), kinds(func(context.Context, store.Task) (task.Workflow, error) {
		return task.Workflow{}, errBoom
	}), task.Config{LeaseTTL: 4 * beat, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	t.Cleanup(r.Stop)

	proxy.Refuse(true)
	proxy.Cut()
	began := time.Now()
	failures := []string{"looking for tasks failed", "lease renewal failed"}
	testdrive.Eventually(t, patience, "the outage is told, and goes on for some beats", func() bool {
		return logged.count(failures[0]) > 0 && logged.count(failures[1]) > 0 && time.Since(began) > 4*beat
	})
	for _, failure := range failures {
		if n := logged.count(failure); n != 1 {
			t.Errorf("%d lines say %q:\n%s", n, failure, logged.String())
		}
	}
	if n := logged.count("level="); n != len(failures) {
		t.Errorf("%d lines:\n%s", n, logged.String())
	}
	proxy.Refuse(false)
	testdrive.Eventually(t, patience, "the end of the outage is told", func() bool {
		return logged.count("looking for tasks works again") > 0 && logged.count("lease renewal works again") > 0
	})
}

// syncBuffer is a bytes.Buffer for use by several goroutines.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *syncBuffer) count(text string) int { return strings.Count(b.String(), text) }
