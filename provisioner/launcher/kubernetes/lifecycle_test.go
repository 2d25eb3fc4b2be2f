package kubernetes_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/test/launchertest"
	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

func newSpec() launcher.Spec {
	return launcher.Spec{ID: "d_" + strings.ToLower(rand.Text()[:8]), MemoryMB: 256, StorageMB: 1024, AdminUser: "admin",
		AdminPassword: rand.Text()}
}

// call is one of a launcher's method.
type call func(ctx context.Context) (launcher.Endpoint, error)

func launching(l launcher.Launcher, spec launcher.Spec) call {
	return func(ctx context.Context) (launcher.Endpoint, error) { return l.Launch(ctx, spec, func(string) {}) }
}

func resizing(l launcher.Launcher, spec launcher.Spec) call {
	return func(ctx context.Context) (launcher.Endpoint, error) { return l.Resize(ctx, spec, func(string) {}) }
}

// order makes a call for a server.
type order func(launcher.Launcher, launcher.Spec) call

func toLater(l launcher.Launcher, spec launcher.Spec) call {
	spec.Version = laterVersion
	return func(ctx context.Context) (launcher.Endpoint, error) {
		return l.(launcher.Upgrader).Upgrade(ctx, spec, func(string) {}, func(string) {})
	}
}

func changing(change func(*launcher.Spec)) order {
	return func(l launcher.Launcher, spec launcher.Spec) call {
		change(&spec)
		return resizing(l, spec)
	}
}

var (
	enlarging  = changing(func(s *launcher.Spec) { s.MemoryMB *= 2 })
	restarting = changing(func(s *launcher.Spec) { s.BinaryLogs = true })
)

func suspending(l launcher.Launcher, spec launcher.Spec) call {
	return func(ctx context.Context) (launcher.Endpoint, error) {
		return launcher.Endpoint{}, l.Suspend(ctx, spec.ID)
	}
}

// do finishes a call that is expected to succeed.
func do(t *testing.T, call call) {
	_, sentences, err := finish(t, call)
	assert.NoError(t, err, "after %q", slices.Compact(sentences))
}

// finish calls a method until it no longer returns NotYet, and returns the sentences for users.
func finish(t *testing.T, call call) (e launcher.Endpoint, sentences []string, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), limits.Stuck)
	defer cancel()
	return launchertest.Finish(ctx, call)
}

// awaitSentence calls a method until users read a sentence, and fails the test if the method ends before that.
func awaitSentence(t *testing.T, what, sentence string, call call) {
	testdrive.Eventually(t, what+" to say: "+sentence, func() bool {
		_, err := call(t.Context())
		e, ok := errors.AsType[*launcher.Error](err)
		require.False(t, err == nil || ok && e.Action != launcher.Wait,
			"%s has ended before it said %q: %v", what, sentence, err)
		return ok && e.Sentence == sentence
	})
}

// hasty returns the place of a broker that gives up whatever it would have to wait for. So a test waits until the
// cluster has said why, however busy the machine is, and then sees what the end of the time leads to.
func (p *place) hasty() *place {
	hasty := *p
	hasty.cfg.PlaceTimeout, hasty.cfg.LaunchTimeout = 1, 1
	return &hasty
}

// answers makes a call once, and expects an error as says does. It returns that.
func answers(t *testing.T, call call, action launcher.Action, sentence string) error {
	_, err := call(t.Context())
	says(t, err, action, sentence)
	return err
}

// says expects an error that has a caller act so, and users read a sentence.
func says(t *testing.T, err error, action launcher.Action, sentence string) {
	e, ok := errors.AsType[*launcher.Error](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, action, e.Action, "%v", err)
	assert.Equal(t, sentence, e.Sentence)
}

// destroy repeats a Destroy that failed, as tasks do: controllers of a busy machine may take longer than it waits.
func destroy(t *testing.T, l launcher.Launcher, id string) error {
	t.Helper()
	var err error
	for range 3 {
		if err = l.Destroy(t.Context(), id); err == nil {
			return nil
		}
		t.Logf("destroy %s: %v", id, err)
	}
	return err
}

func launch(t *testing.T, l launcher.Launcher, spec launcher.Spec) launcher.Endpoint {
	e, sentences, err := finish(t, launching(l, spec))
	require.NoError(t, err, "launch, after %q", slices.Compact(sentences))
	return e
}

// Kubernetes restarts a server whose container dies. Meanwhile Starting is true. The data stays.
func TestContainerKilled(t *testing.T) {
	oneImage(t, func(t *testing.T, image kubernetes.Image) {
		p := newPlace(t, image)
		l, spec := p.open(t), newSpec()
		e := launch(t, l, spec)
		require.True(t, shared.Node.Kill(p.Name, podName(spec)), "there is no container to kill")
		testdrive.Eventually(t, "the server to be starting", func() bool { return l.Starting(spec.ID) })
		again := launch(t, l, spec)
		assert.Equal(t, e.AdminAddress(), again.AdminAddress())
		launchertest.Visit(t, spec, again)
	})
}

// While a server's node is lost, its pod stays, and Kubernetes creates no other one. Calls wait and say for what, and a
// removal is retried. When the pod is gone, all of them succeed.
func TestNodeLost(t *testing.T) {
	oneImage(t, func(t *testing.T, image kubernetes.Image) {
		p := newPlace(t, image)
		l, spec := p.open(t), newSpec()
		e, pod := launch(t, l, spec), p.Path("pods/"+podName(spec))
		lose := func() {
			p.hold(t, pod, "test.example.com/lost") // it stays, as if no kubelet reported its end
			p.Do(t, http.MethodDelete, pod, map[string]any{"apiVersion": "v1", "kind": "DeleteOptions",
				"gracePeriodSeconds": 1}, nil)
		}
		const stops, lost = "Waiting until mysqld has stopped", "Waiting for the server's machine, which does not respond"
		launchAgain, resize := launching(l, spec), enlarging(l, spec)

		lose()
		assert.True(t, l.Starting(spec.ID), "a server whose pod is being replaced does not count as starting")
		awaitSentence(t, "a launch", stops, launchAgain)
		awaitSentence(t, "a resize", stops, resize)
		p.report(t, spec, condition("DisruptionTarget", "True", "DeletionByTaintManager", 0))
		awaitSentence(t, "a launch", lost, launchAgain)
		awaitSentence(t, "a resize", lost, resize)
		assert.False(t, l.Starting(spec.ID), "a server whose node is lost counts as starting")
		troubles, err := l.(launcher.Observer).Troubles(t.Context())
		assert.True(t, err == nil && troubles[spec.ID] == launcher.NodeLost, "the troubles are %v, %v", troubles, err)
		p.hold(t, pod)
		do(t, resize)
		launchertest.Visit(t, spec, e)
		lose()
		assert.ErrorContains(t, l.Destroy(t.Context(), spec.ID), "its node may be lost")
		p.hold(t, pod)
		assert.NoError(t, destroy(t, l, spec.ID))
		p.holdsNothing(t)
	})
}

// A running server gets more memory in place: the pod stays, and no session ends. The next pod has that memory too.
func TestResizeInPlace(t *testing.T) {
	eachImage(t, func(t *testing.T, image kubernetes.Image) {
		p := newPlace(t, image)
		l, spec := p.open(t), newSpec()
		e := launch(t, l, spec)
		guest := launchertest.Visit(t, spec, e)
		before := uid(t, p, spec)
		for _, memoryMB := range []int{1024, 512} {
			spec.MemoryMB, spec.StorageMB = memoryMB, 2*memoryMB
			_, sentences, err := finish(t, resizing(l, spec))
			require.NoError(t, err, "resize to %d MiB", memoryMB)
			now := uid(t, p, spec)
			assert.True(t, now == before && !strings.Contains(strings.Join(sentences, " "), "Restarting"),
				"resized to %d MiB, the pod is another one: %q", memoryMB, sentences)
		}
		assert.NoError(t, guest.PingContext(t.Context()), "a session has ended")
		assert.Equal(t, "512Mi", p.limitsOf(t, spec)["mysqld"]["memory"])
	})
}

// A running pod cannot lose its limit of processor time, so a plan without one starts another pod. If the node has no room
// for a limit that a plan adds, the pod of the former plan has none again.
func TestProcessorLimit(t *testing.T) {
	t.Parallel()
	p := newObjects(t)
	l, limited := p.open(t), newSpec()
	runs := func(spec launcher.Spec, has map[string]string) (pod string) {
		p.runs(t, spec, map[string]any{"name": "mysqld", "resources": map[string]any{"requests": has, "limits": has}})
		return uid(t, p, spec)
	}
	limited.MilliCPU = 500
	p.ready(t, l, limited)
	before := runs(limited, map[string]string{"memory": "256Mi", "cpu": "500m"})
	limited.MilliCPU = 0
	awaitSentence(t, "a resize", "Restarting mysqld with its new size", resizing(l, limited))
	p.awaitNext(t, limited, before)

	spec, has := p.readyServer(t, l), map[string]string{"memory": "256Mi"}
	before = runs(spec, has)
	limited = spec
	limited.MilliCPU = 500
	awaitSentence(t, "a resize", "Changing the server's memory", resizing(l, limited))
	p.report(t, spec, condition("PodScheduled", "True", "", 0), condition("PodResizePending", "True", "Infeasible", 0))
	_, _, err := finish(t, resizing(l, limited))
	require.ErrorIs(t, err, launcher.ErrNoRoom)
	awaitSentence(t, "the resize back", "Restarting mysqld with its new size", resizing(l, spec))
	p.awaitNext(t, spec, before)
	assert.Equal(t, has, p.limitsOf(t, spec)["mysqld"])
}

// A broker that was paused while another one destroyed the server leaves no objects behind.
func TestFence(t *testing.T) {
	t.Parallel()
	p := newObjects(t)
	spec := newSpec()
	l := p.behind(t, pausedBefore(func(r *http.Request, _ []byte) bool {
		return strings.Contains(r.URL.Path, "/persistentvolumeclaims/")
	}, func() { require.NoError(t, destroy(t, p.open(t), spec.ID)) })).open(t)
	_, err := l.Launch(t.Context(), spec, func(string) {})
	require.ErrorIs(t, err, launcher.ErrNotFound)
	p.holdsNothing(t)
}

func objectName(spec launcher.Spec) string { return strings.ReplaceAll(spec.ID, "_", "-") }
func podName(spec launcher.Spec) string    { return objectName(spec) + "-0" }

// awaitNext returns once a server has another pod than that of before.
func (p *place) awaitNext(t *testing.T, spec launcher.Spec, before string) {
	testdrive.Eventually(t, "another pod", func() bool {
		now := uid(t, p, spec)
		return now != "" && now != before
	})
}

// limitsOf are those of the containers of a server's pod, by their names.
func (p *place) limitsOf(t *testing.T, spec launcher.Spec) map[string]map[string]string {
	limits := map[string]map[string]string{}
	for _, c := range p.get(t, p.Path("pods/"+podName(spec))).Spec.Containers {
		limits[c.Name] = c.Resources.Limits
	}
	return limits
}

// uid is that of the pod of a server; "" if there is none.
func uid(t *testing.T, p *place, spec launcher.Spec) string {
	for _, pod := range p.list(t, p.Path("pods")) {
		if pod.Metadata.Name == podName(spec) {
			return pod.Metadata.UID
		}
	}
	return ""
}
