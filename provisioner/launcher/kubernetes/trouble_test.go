package kubernetes_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/test/testdrive"
)

// cuttingWatches is the place of a broker whose watches are cut off again and again.
func (p *place) cuttingWatches(t *testing.T) *place {
	return p.behind(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
		if r.URL.Query().Get("watch") != "" {
			ctx, cancel := context.WithTimeout(r.Context(), 300*time.Millisecond)
			defer cancel()
			r = r.WithContext(ctx)
		}
		pass(w, r)
	})
}

// A launcher that supervises sees why a server does not run, and that it runs again, also where its watches are cut off
// again and again. One that does not supervise asks, and sees the same. The clock of the broker's host does not matter.
func TestTroubles(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
		t.Run("clocks ahead by "+by.String(), func(t *testing.T) {
			t.Parallel()
			testTroubles(t, by)
		})
	}
}

func testTroubles(t *testing.T, by time.Duration) {
	p, spec := newObjects(t), newSpec()
	awaitSentence(t, "a launch", "Waiting for a node", launching(p.open(t), spec))
	testdrive.Eventually(t, "a pod", func() bool { return uid(t, p, spec) != "" })
	asks := p
	if by != 0 {
		asks = p.ahead(t, by)
	}
	watches := asks.cuttingWatches(t)
	watches.cfg.Supervise, watches.cfg.WatchPause = true, 100*time.Millisecond
	watching, asking := watches.open(t).(launcher.Observer), asks.open(t).(launcher.Observer)
	set := func(to map[string]any) {
		p.merge(t, p.Path("pods/"+podName(spec)+"/status"), map[string]any{"status": to})
	}
	sees := func(want launcher.Trouble) {
		for what, l := range map[string]launcher.Observer{"watched": watching, "asked": asking} {
			testdrive.Eventually(t, "a server that is "+string(want)+", "+what, func() bool {
				troubles, err := l.Troubles(t.Context())
				return err == nil && troubles[spec.ID] == want
			})
		}
	}
	condition := func(kind, status, reason string) map[string]string {
		return map[string]string{"type": kind, "status": status, "reason": reason, "lastTransitionTime": ago(0)}
	}
	state := func(state, last map[string]any) map[string]any {
		return map[string]any{"conditions": []any{}, "containerStatuses": []any{map[string]any{"name": "mysqld",
			"image": "x", "imageID": "x", "ready": false, "restartCount": 1, "state": state, "lastState": last}}}
	}
	now := ago(0)
	killed := func(since time.Duration) map[string]any {
		return map[string]any{"terminated": map[string]any{"exitCode": 137, "reason": "OOMKilled", "finishedAt": ago(since)}}
	}
	running := map[string]any{"running": map[string]any{"startedAt": now}}

	sees("")
	set(map[string]any{"conditions": []any{condition("Ready", "False", ""), condition("ContainersReady", "True", "")}})
	sees(launcher.NodeLost)
	set(map[string]any{"conditions": []any{condition("PodScheduled", "False", "Unschedulable")}})
	sees(launcher.NoNode)
	set(map[string]any{"conditions": []any{condition("DisruptionTarget", "True", "TerminationByKubelet")}})
	sees(launcher.Evicted)
	set(state(running, killed(59*time.Minute)))
	sees(launcher.OutOfMemory)
	set(state(running, killed(61*time.Minute)))
	sees("")
	full := "[ERROR] InnoDB: The error means mysqld cannot write: Error number 28 means 'No space left on device'"
	set(state(map[string]any{"waiting": map[string]string{"reason": "CrashLoopBackOff"}}, map[string]any{
		"terminated": map[string]any{"exitCode": 134, "reason": "Error", "finishedAt": now, "message": full}}))
	sees(launcher.VolumeFull)
	set(state(map[string]any{"waiting": map[string]string{"reason": "CrashLoopBackOff"}}, map[string]any{}))
	sees(launcher.Crashing)
	set(state(map[string]any{"waiting": map[string]string{"reason": "ImagePullBackOff"}}, map[string]any{}))
	sees(launcher.NoImage)
	assert.Regexp(t, "a server is in trouble.*"+spec.ID, p.log.String())
	starting := state(running, map[string]any{})
	late := condition("Ready", "False", "ContainersNotReady")
	starting["conditions"] = []any{late}
	late["lastTransitionTime"] = ago(11 * time.Minute)
	set(starting)
	sees(launcher.NotReady)
	late["lastTransitionTime"] = ago(9 * time.Minute)
	set(starting)
	sees("")
	assert.Regexp(t, "a server is in trouble.*"+spec.ID+".*not-ready", p.log.String())
	require.NoError(t, asking.Destroy(t.Context(), spec.ID))
	sees("")
}
