package kubernetes_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/test/testdrive"
)

// edited is the place of a broker that reads the API server's responses as edit changes them.
func (p *place) edited(t *testing.T, edit func(path, response string) string) *place {
	return p.behind(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
		response := httptest.NewRecorder()
		r.Header.Del("Accept-Encoding")
		pass(response, r)
		w.WriteHeader(response.Code)
		_, _ = io.WriteString(w, edit(r.URL.Path, response.Body.String()))
	})
}

// refused deletes the pod of a server, and returns once the cluster has refused another one, and says so.
func (p *place) refused(t *testing.T, spec launcher.Spec) {
	p.Do(t, http.MethodDelete, p.Path("pods/"+podName(spec)), nil, nil)
	testdrive.Eventually(t, "the refusal of a pod", func() bool {
		var set struct{ Status struct{ Replicas int } }
		p.Do(t, http.MethodGet, p.kindsOf(spec)["set"], nil, &set)
		var events struct{ Items []any }
		query := url.Values{"fieldSelector": {"reason=FailedCreate,involvedObject.name=" + objectName(spec)}}
		p.Do(t, http.MethodGet, p.Path("events")+"?"+query.Encode(), nil, &events)
		return set.Status.Replicas == 0 && len(events.Items) > 0
	})
}

// What the cluster refused before the pod was missing says nothing of this pod, and the time that it may be missing does
// not begin with the last change of an older server.
func TestEarlierRefusals(t *testing.T) {
	t.Parallel()
	p := newObjects(t)
	spec := p.readyServer(t, p.open(t))
	p.forbid(t, spec)
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
		_, err := p.edited(t, edit).open(t).Launch(t.Context(), spec, func(string) {})
		says(t, err, launcher.Wait, "Waiting for a node")
	}
}

// A server whose pod the cluster refuses after its data was put back is waited for, as its task is the last one.
func TestPodForbiddenAfterRevert(t *testing.T) {
	t.Parallel()
	p := newObjects(t)
	spec := p.readyServer(t, p.open(t))
	allow := p.forbid(t, spec)
	p.refused(t, spec)
	full := p.edited(t, func(_, response string) string {
		return strings.ReplaceAll(response, "ask the storage team", "exceeded quota")
	})
	l := full.open(t).(launcher.Upgrader)
	awaitSentence(t, "a revert", "There is no room for a dedicated server of this size just now.",
		func(ctx context.Context) (launcher.Endpoint, error) {
			return l.Revert(ctx, spec, func(string) {}, func(string) {})
		})
	assert.Contains(t, p.log.String(), "exceeded quota")
	allow()
	testdrive.Eventually(t, "a pod", func() bool { return uid(t, p, spec) != "" })
}
