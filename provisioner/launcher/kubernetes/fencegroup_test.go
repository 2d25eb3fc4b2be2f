package kubernetes_test

import (
	"context"
	"testing"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/test/kubernetes/cluster"
)

// Brokers are paused before each request that changes something of a group, while others finish the work, and some of
// it is undone. What the paused ones do then changes nothing.
func TestPausedBrokersOfGroup(t *testing.T) { onNodes(t, testPausedBrokersOfGroup) }

func testPausedBrokersOfGroup(t *testing.T, image kubernetes.Image, node *cluster.Node) {
	p := newPlace(t, image)
	if err := node.AddNodes(t.Context(), p.Name, 2); err != nil {
		t.Fatal(err)
	}
	heir, spec := p.open(t), newSpec()
	spec.MemoryMB, spec.Members = 512, 3
	larger := spec
	larger.MemoryMB, larger.StorageMB = 640, 2048
	resizing := func(l launcher.Launcher, spec launcher.Spec) func(ctx context.Context) (launcher.Endpoint, error) {
		return func(ctx context.Context) (launcher.Endpoint, error) { return l.Resize(ctx, spec, func(string) {}) }
	}
	t.Log("launch")
	p.continueEach(t, spec, p.pauseEach(t, spec, launching, never))
	t.Log("resize")
	paused := p.pauseEach(t, larger, resizing, never)
	do(t, resizing(heir, spec))
	p.continueEach(t, spec, paused)
	t.Log("suspend, and launch what is suspended")
	paused = p.pauseEach(t, spec, suspending, never)
	launched := p.pauseEach(t, spec, launching, never)
	p.continueEach(t, spec, paused)
	do(t, suspending(heir, spec))
	p.continueEach(t, spec, launched)
	t.Log("destroy")
	destroying := func(l launcher.Launcher, spec launcher.Spec) func(ctx context.Context) (launcher.Endpoint, error) {
		return func(ctx context.Context) (launcher.Endpoint, error) {
			return launcher.Endpoint{}, l.Destroy(ctx, spec.ID)
		}
	}
	paused = p.pauseEach(t, spec, destroying, never)
	p.holdsNothing(t)
	p.continueEach(t, spec, paused)
}
