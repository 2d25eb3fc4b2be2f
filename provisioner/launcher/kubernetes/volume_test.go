package kubernetes_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/launcher"
)

// If the volume of a server that was ready is gone, no empty one takes its place.
func TestVolumeIsGone(t *testing.T) {
	t.Parallel()
	p, l, spec := newServer(t)
	paths := p.kindsOf(spec)
	p.Do(t, http.MethodDelete, paths["claim"], nil, nil)
	p.expectNone(t, paths["claim"])
	larger := changing(func(s *launcher.Spec) { s.StorageMB *= 2 })
	err := answers(t, larger(l, spec), launcher.GiveUp, "The volume of this server is gone.")
	assert.ErrorContains(t, err, "PersistentVolumeClaim "+objectName(spec))
	p.Do(t, http.MethodDelete, paths["set"], nil, nil)
	p.expectNone(t, p.Path("pods/"+podName(spec)))
	answers(t, launching(l, spec), launcher.GiveUp, "The volume of this server is gone.")
	assert.Empty(t, p.list(t, p.Path("persistentvolumeclaims")), "claims that were made")
	p.remove(t, l, spec)
}

// While somebody is deleting a server's volume, only its pod keeps the data: no operation ends the pod, nor does the
// end of an upgrade.
func TestVolumeThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	p, l, spec := newServer(t)
	p.deleteHeld(t, p.kindsOf(spec)["claim"])
	before := uid(t, p, spec)
	for _, call := range []order{restarting, suspending, toLater} {
		answers(t, call(l, spec), launcher.GiveUp, "The volume of this server is being deleted.")
	}
	p.merge(t, p.Path("pods/"+podName(spec)), map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{"mysql-broker/work": "upgrade done"}}})
	answers(t, launching(l, spec), launcher.GiveUp, "The volume of this server is being deleted.")
	assert.Equal(t, before, uid(t, p, spec), "the pod")
	p.hold(t, p.kindsOf(spec)["claim"])
	p.remove(t, l, spec)
}

// If somebody deletes the volume while a pod is about to be replaced, the pod stays too.
func TestVolumeDeletedBeforePod(t *testing.T) {
	t.Parallel()
	p, _, spec := newServer(t)
	claim, before := p.kindsOf(spec)["claim"], uid(t, p, spec)
	l := p.behind(t, pausedBefore(func(r *http.Request, body []byte) bool {
		return r.URL.Path == p.secretOf(spec) && bytes.Contains(body, []byte(`\"recorded\":true`)) &&
			!bytes.Contains(body, []byte(`\"pod\":`))
	}, func() { p.deleteHeld(t, claim) })).open(t)
	answers(t, restarting(l, spec), launcher.GiveUp, "The volume of this server is being deleted.")
	assert.Equal(t, before, uid(t, p, spec), "the pod")
	p.hold(t, claim)
}

// deleteHeld deletes an object, which stays until hold is called without a finalizer.
func (p *place) deleteHeld(t *testing.T, path string) {
	p.hold(t, path, "test.example.com/held")
	p.Do(t, http.MethodDelete, path, nil, nil)
}

// A server whose volume is gone keeps nothing: its suspension stops it and says that there is no server, even in the
// middle of an upgrade.
func TestSuspendWithoutVolume(t *testing.T) {
	t.Parallel()
	for _, during := range []string{"no work", "an upgrade"} {
		t.Run(during, func(t *testing.T) {
			t.Parallel()
			p, l, spec := newServer(t)
			if during == "an upgrade" {
				answers(t, toLater(l, spec), launcher.Wait, "Stopping the server")
			}
			claim := p.kindsOf(spec)["claim"]
			p.Do(t, http.MethodDelete, claim, nil, nil)
			p.expectNone(t, claim)
			for range 2 {
				_, _, err := finish(t, suspending(l, spec))
				assert.ErrorIs(t, err, launcher.ErrNotFound)
				assert.Empty(t, uid(t, p, spec), "the pod")
			}
			answers(t, launching(l, spec), launcher.GiveUp, "The volume of this server is gone.")
			p.remove(t, l, spec)
		})
	}
}
