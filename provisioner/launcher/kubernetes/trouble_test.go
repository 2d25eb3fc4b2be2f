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
// again and again. One that does not supervise asks, and sees the same.
func TestTroubles(t *testing.T) {
	t.Parallel()
	p, spec := newObjects(t), newSpec()
	awaitSentence(t, "a launch", "Waiting for a node", launching(p.open(t), spec))
	testdrive.Eventually(t, "a pod", func() bool { return uid(t, p, spec) != "" })
	behind := p.cuttingWatches(t)
	behind.cfg.Supervise, behind.cfg.WatchPause = true, 100*time.Millisecond
	watching, asking := behind.open(t).(launcher.Observer), p.open(t).(launcher.Observer)
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
		return map[string]string{"type": kind, "status": status, "reason": reason,
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}
	}
	state := func(state, last map[string]any) map[string]any {
		return map[string]any{"conditions": []any{}, "containerStatuses": []any{map[string]any{"name": "mysqld",
			"image": "x", "imageID": "x", "ready": false, "restartCount": 1, "state": state, "lastState": last}}}
	}
	now := time.Now().UTC().Format(time.RFC3339)
	killed := map[string]any{"terminated": map[string]any{"exitCode": 137, "reason": "OOMKilled", "finishedAt": now}}
	running := map[string]any{"running": map[string]any{"startedAt": now}}

	sees("")
	set(map[string]any{"conditions": []any{condition("Ready", "False", ""), condition("ContainersReady", "True", "")}})
	sees(launcher.NodeLost)
	set(map[string]any{"conditions": []any{condition("PodScheduled", "False", "Unschedulable")}})
	sees(launcher.NoNode)
	set(map[string]any{"conditions": []any{condition("DisruptionTarget", "True", "TerminationByKubelet")}})
	sees(launcher.Evicted)
	set(state(running, killed))
	sees(launcher.OutOfMemory)
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
	late["lastTransitionTime"] = time.Now().Add(-11 * time.Minute).UTC().Format(time.RFC3339)
	starting["conditions"] = []any{late}
	set(starting)
	sees(launcher.NotReady)
	assert.Regexp(t, "a server is in trouble.*"+spec.ID+".*not-ready", p.log.String())
	set(state(running, map[string]any{}))
	sees("")
	require.NoError(t, asking.Destroy(t.Context(), spec.ID))
	sees("")
}
