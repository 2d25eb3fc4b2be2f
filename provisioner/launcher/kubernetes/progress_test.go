package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/testdrive"
)

// edited is the place of a broker that reads the API server's responses as edit changes them.
func (p *place) edited(t *testing.T, edit func(path, response string) string) *place {
	return p.behind(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
		response := httptest.NewRecorder()
		r.Header.Del("Accept-Encoding")
		pass(response, r)
		w.Header().Set("Date", edit("Date", response.Header().Get("Date")))
		w.WriteHeader(response.Code)
		_, _ = io.WriteString(w, edit(r.URL.Path, response.Body.String()))
	})
}

// ahead is the place of a broker whose cluster's clocks are ahead of that of its host.
func (p *place) ahead(t *testing.T, by time.Duration) *place {
	times := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	return p.edited(t, func(path, response string) string {
		if path == "Date" {
			return time.Now().Add(by).UTC().Format(http.TimeFormat)
		}
		return times.ReplaceAllStringFunc(response, func(text string) string {
			at, err := time.Parse(time.RFC3339, text)
			assert.NoError(t, err)
			return at.Add(by).Format(time.RFC3339)
		})
	})
}

// ago is a time that long ago, as objects have it.
func ago(since time.Duration) string { return time.Now().Add(-since).UTC().Format(time.RFC3339) }

// A broker waits exactly as long, and sees the same, if the clock of its host is an hour behind or ahead.
func TestClocks(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			p := newObjects(t)
			spec := newSpec()
			spec.Version = "11.8"
			spec.Placement = &plan.Placement{StorageClass: cluster.PendingClass}
			p.ready(t, p.open(t), spec)
			ahead := p.ahead(t, by)
			patient, hasty := ahead.open(t), ahead.hasty().open(t)
			waits := func(sentence, ends string, of launcher.Spec, order order) {
				awaitSentence(t, "a call", sentence, order(patient, of))
				testdrive.Eventually(t, "a broker that gives up at once", func() bool {
					_, err := order(hasty, of)(t.Context())
					e, _ := errors.AsType[*launcher.Error](err)
					if e != nil && e.Sentence == "Waiting for the server's pod" { // the cluster has just reported on it
						return false
					}
					assert.ErrorContains(t, err, ends)
					assert.False(t, isNotYet(err), "%v", err)
					return true
				})
			}

			fresh := newSpec()
			p.begun(t, patient, fresh)
			p.initContainers(t, fresh, initContainer{"prepare", "waiting"})
			waits("Fetching the image", "did not come up in time: prepare: ErrImagePull", fresh, launching)
			p.report(t, fresh, condition("PodScheduled", "False", "", 0))
			waits("Waiting for a node", "no node for the pod", fresh, launching)
			p.deleteHeld(t, p.Path("pods/"+podName(fresh)))
			awaitSentence(t, "a launch", "Waiting until mysqld has stopped", launching(patient, fresh))
			assert.True(t, patient.Starting(fresh.ID), "a server whose pod is ending has not lost its node")
			p.hold(t, p.Path("pods/"+podName(fresh)))

			p.runs(t, spec, map[string]any{"name": "mysqld"})
			awaitSentence(t, "a resize", "Changing the server's memory", enlarging(patient, spec))
			p.report(t, spec, condition("PodResizePending", "True", "", 0))
			waits("Waiting until the server's node has room", "its node has no room", spec, enlarging)

			spec.StorageMB *= 2
			waits("Enlarging the server's disk", "and is to have 2048 MiB", spec, resizing)
			grows := func(since time.Duration, sentence string) {
				p.merge(t, p.kindsOf(spec)["claim"]+"/status", map[string]any{"status": map[string]any{
					"conditions": []any{condition("FileSystemResizePending", "True", "", since)}}})
				awaitSentence(t, "a resize", sentence, resizing(patient, spec))
			}
			grows(time.Minute, "Enlarging the server's disk")
			grows(3*time.Minute, "Restarting mysqld with its new size")

			awaitSentence(t, "an upgrade", "Preparing the volumes", toLater(patient, spec))
			p.report(t, spec, condition("PodScheduled", "False", "", 0))
			waits("Preparing the volumes", "no node for the pod", spec, toLater)
		})
	}
}

// refused deletes the pod of a server, and returns once the cluster has refused another one, and says so.
func (p *place) refused(t *testing.T, spec launcher.Spec) {
	p.Do(t, http.MethodDelete, p.Path("pods/"+podName(spec)), nil, nil)
	testdrive.Eventually(t, "the refusal of a pod", func() bool {
		query := url.Values{"fieldSelector": {"reason=FailedCreate,involvedObject.name=" + objectName(spec)}}
		events := p.list(t, p.Path("events")+"?"+query.Encode())
		return p.get(t, p.kindsOf(spec)["set"]).Status.Replicas == 0 && len(events) > 0
	})
}

// What the cluster refused before the pod was missing says nothing of this pod, and the time that it may be missing does
// not begin with the last change of an older server.
func TestEarlierRefusals(t *testing.T) {
	t.Parallel()
	p, _, spec := newServer(t)
	p.forbid(t, spec, "CREATE pods")
	p.refused(t, spec)
	const long = "2020-01-01T00:00:00Z"
	times := regexp.MustCompile(`"(creationTimestamp|time|firstTimestamp|lastTimestamp)":"[^"]*"`)
	made := regexp.MustCompile(`("creationTimestamp":"|"manager":"mysql-broker",[^{}]*"time":")[^"]*`)
	for name, edit := range map[string]func(path, response string) string{
		"earlier event": func(path, response string) string {
			if !strings.HasSuffix(path, "/events") {
				return response
			}
			return times.ReplaceAllString(strings.ReplaceAll(response, "ask the storage team", "exceeded quota"), `"$1":"`+long+`"`)
		},
		"older server": func(path, response string) string {
			if !strings.Contains(path, "/secrets/") && !strings.Contains(path, "/statefulsets/") {
				return response
			}
			return made.ReplaceAllString(response, "${1}"+long)
		},
	} {
		t.Log(name)
		answers(t, launching(p.edited(t, edit).open(t), spec), launcher.Wait, "Waiting for a node")
	}
}

// observers opens a launcher that supervises, whose watches are cut off again and again, and one that asks. see expects
// that both see the same.
func (p *place) observers(t *testing.T) (see func(want map[string]launcher.Trouble)) {
	watches := p.behind(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
		if r.URL.Query().Get("watch") != "" {
			ctx, cancel := context.WithTimeout(r.Context(), 300*time.Millisecond)
			defer cancel()
			r = r.WithContext(ctx)
		}
		pass(w, r)
	})
	watches.cfg.Supervise, watches.cfg.WatchPause = true, 100*time.Millisecond
	seen := map[string]launcher.Launcher{"watched": watches.open(t), "asked": p.open(t)}
	return func(want map[string]launcher.Trouble) {
		for what, l := range seen {
			testdrive.Eventually(t, fmt.Sprint(want, ", ", what), func() bool {
				troubles, err := l.(launcher.Observer).Troubles(t.Context())
				return err == nil && maps.Equal(troubles, want)
			})
		}
	}
}

// A launcher that supervises sees why a server does not run, and that it runs again, also where its watches are cut off
// again and again. One that does not supervise asks, and sees the same. The clock of the broker's host does not matter.
func TestTroubles(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
		t.Run("clocks ahead by "+by.String(), func(t *testing.T) {
			t.Parallel()
			p, spec := newObjects(t), newSpec()
			p.begun(t, p.open(t), spec)
			asks := p
			if by != 0 {
				asks = p.ahead(t, by)
			}
			see := asks.observers(t)
			sees := func(want launcher.Trouble) { see(map[string]launcher.Trouble{spec.ID: want}) }
			set := func(state, last map[string]any, conditions ...map[string]string) {
				p.status(t, spec, map[string]any{"conditions": append([]map[string]string{}, conditions...),
					"containerStatuses": []any{map[string]any{"name": "mysqld", "image": "x", "imageID": "x", "ready": false,
						"restartCount": 1, "state": state, "lastState": last}}})
			}
			waiting := func(reason string) map[string]any {
				return map[string]any{"waiting": map[string]string{"reason": reason}}
			}
			now := ago(0)
			killed := func(since time.Duration) map[string]any {
				return map[string]any{"terminated": map[string]any{"exitCode": 137, "reason": "OOMKilled",
					"finishedAt": ago(since)}}
			}
			running := map[string]any{"running": map[string]any{"startedAt": now}}

			see(nil)
			p.report(t, spec, condition("Ready", "False", "", 0), condition("ContainersReady", "True", "", 0))
			sees(launcher.NodeLost)
			p.report(t, spec, condition("PodScheduled", "False", "Unschedulable", 0))
			sees(launcher.NoNode)
			p.report(t, spec, condition("DisruptionTarget", "True", "TerminationByKubelet", 0))
			sees(launcher.Evicted)
			set(running, killed(59*time.Minute))
			sees(launcher.OutOfMemory)
			set(running, killed(61*time.Minute))
			see(nil)
			full := "[ERROR] InnoDB: The error means mysqld cannot write: Error number 28 means 'No space left on device'"
			set(waiting("CrashLoopBackOff"), map[string]any{
				"terminated": map[string]any{"exitCode": 134, "reason": "Error", "finishedAt": now, "message": full}})
			sees(launcher.VolumeFull)
			set(waiting("CrashLoopBackOff"), map[string]any{})
			sees(launcher.Crashing)
			set(waiting("ImagePullBackOff"), map[string]any{})
			sees(launcher.NoImage)
			assert.Regexp(t, "a server is in trouble.*"+spec.ID, p.log.String())
			set(running, map[string]any{}, condition("Ready", "False", "ContainersNotReady", 11*time.Minute))
			sees(launcher.NotReady)
			set(running, map[string]any{}, condition("Ready", "False", "ContainersNotReady", 9*time.Minute))
			see(nil)
			assert.Regexp(t, "a server is in trouble.*"+spec.ID+".*not-ready", p.log.String())
			require.NoError(t, asks.open(t).Destroy(t.Context(), spec.ID))
			see(nil)
		})
	}
}
