package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
)

// Resize implements launcher.Launcher. It resizes the pod in place and sets mysqld's variables by SQL, so sessions stay
// open. If Kubernetes cannot do that, it replaces the pod. A volume can grow, but never shrinks.
func (l *Launcher) Resize(ctx context.Context, spec launcher.Spec,
	report func(progress string)) (_ launcher.Endpoint, err error) {
	defer func() { err = explain(err) }()
	if _, err := l.cfg.offered(spec); err != nil {
		return launcher.Endpoint{}, err
	}
	s, err := l.secrets.find(ctx, spec.ID)
	if err == nil {
		err = l.run.makeFiles(ctx, s, spec, s.state.Host)
	}
	if err != nil {
		return launcher.Endpoint{}, err
	}
	if err := (upgrader{l.run, s, ignored}).abandon(ctx); err != nil {
		return launcher.Endpoint{}, err
	}
	if s.state.Phase == phaseSuspended {
		return launcher.Endpoint{}, launcher.ErrNotFound
	}
	if s.state.Phase != phaseReady {
		return launcher.Endpoint{}, fmt.Errorf("server %s: cannot resize what was not launched", s.id)
	}
	next := sizeOf(spec)
	next.ClaimMB = max(s.state.ClaimMB, spec.StorageMB)
	begun := s.state.Resize
	if begun == nil && reflect.DeepEqual(next, s.state.size) {
		if err := l.secrets.changeWork(ctx, s, func(*server) {}); err != nil { // a broker that was paused could resize it
			return launcher.Endpoint{}, err
		}
		return l.run.bringUp(ctx, s, spec)
	}
	if begun == nil { // before anything is recorded that would have to be undone
		if _, err := l.run.volume(ctx, s); err != nil {
			return launcher.Endpoint{}, err
		}
	}
	report("Changing the server's size")
	if ctx.Err() != nil { // the report may have found that another has the work now
		return launcher.Endpoint{}, fmt.Errorf("server %s: %w", s.id, context.Cause(ctx))
	}
	if begun == nil || !reflect.DeepEqual(next, begun.size) {
		if err := l.run.beginWork(ctx, s, false, func(s *server) {
			s.state.Resize = resizeTo(next, begun)
		}); err != nil {
			return launcher.Endpoint{}, err
		}
		fault.Point("resize", "recorded")
	}
	if err := (resizer{l.run.objects, s, spec}).resize(ctx); err != nil {
		return launcher.Endpoint{}, err
	}
	return l.run.bringUp(ctx, s, spec)
}

// resizing is a resize that has begun and not ended.
type resizing struct {
	size
	TriedMB  int    `json:"tried_mb,omitempty"` // the least memory of those that did not end before this one; 0: none
	Restarts bool   `json:"restarts,omitempty"` // the server needs another pod
	Recorded bool   `json:"recorded,omitempty"` // the state and the settings file have this size, and only the pod has not
	Pod      string `json:"pod,omitempty"`      // if Recorded: UID of the pod that must end; "" if not known yet
}

// resizeTo returns a new resize. begun, if any, has not ended, and may have changed anything: if it has given the pod a
// limit of processor time, only another pod has none.
func resizeTo(next size, begun *resizing) *resizing {
	if begun == nil {
		return &resizing{size: next}
	}
	tried := begun.MemoryMB
	if begun.TriedMB > 0 {
		tried = min(tried, begun.TriedMB)
	}
	return &resizing{size: next, TriedMB: tried,
		Restarts: begun.Restarts || begun.MilliCPU > 0 && next.MilliCPU == 0}
}

// resizer resizes a server. The spec is for logins.
type resizer struct {
	objects
	s    *server
	spec launcher.Spec
}

// resize changes the objects to the size that the Secret says, and then records its end. All of it can be repeated.
func (r resizer) resize(ctx context.Context) error {
	s := r.s
	if s.state.Resize.Recorded {
		return r.replacePod(ctx)
	}
	inPlace, err := r.online(ctx)
	if err == nil && !inPlace { // before anything is recorded that only another pod undoes
		err = r.api.TryDelete(ctx, r.api.Path(api.Pods, s.podName()))
	}
	if err != nil {
		return err
	}
	if err := r.applyWork(ctx, s, nil); err != nil {
		return err
	}
	fault.Point("resize", "template changed")
	if err := r.changeWork(ctx, s, func(s *server) {
		s.state.size = s.state.Resize.size
		s.writeSettings()
		if s.state.Resize.Restarts, s.state.Resize.Recorded = true, true; inPlace {
			s.state.Resize = nil
		}
	}); err != nil || inPlace {
		return err
	}
	fault.Point("resize", "settings changed")
	return r.replacePod(ctx)
}

// online changes what can change while the server runs. It returns false if the server has to restart.
func (r resizer) online(ctx context.Context) (inPlace bool, err error) {
	s := r.s
	present, next := s.state.size, s.state.Resize
	inPlace = !next.Restarts && present.sameNodes(next.size) && present.BinaryLogs == next.BinaryLogs &&
		(next.MilliCPU > 0 || present.MilliCPU == 0) // a pod's limit can change, but not end
	if next.ClaimMB > present.ClaimMB || next.TriedMB > 0 {
		wanted := *s
		wanted.state.size = next.size
		online, err := r.growVolume(ctx, &wanted)
		if err != nil {
			return false, err
		}
		inPlace = inPlace && online
		fault.Point("resize", "volume grown")
	}
	if inPlace {
		if inPlace, err = r.inPlace(ctx); err != nil {
			return false, err
		}
	}
	fault.Point("resize", "pod resized")
	return inPlace, nil
}

// replacePod deletes the pod of before, and returns NotYet.
func (r resizer) replacePod(ctx context.Context) error {
	s := r.s
	if s.state.Resize.Pod == "" {
		p, there, err := r.pod(ctx, s)
		if err != nil {
			return err
		}
		if there { // recorded first, so that a repetition deletes no other one
			if err := r.changeWork(ctx, s, func(s *server) { s.state.Resize.Pod = p.Metadata.UID }); err != nil {
				return err
			}
		}
	}
	if old := s.state.Resize.Pod; old != "" {
		if err := r.deletePod(ctx, s, old); err != nil {
			return err
		}
	}
	if err := r.changeWork(ctx, s, func(s *server) { s.state.Resize = nil }); err != nil {
		return err
	}
	return launcher.NotYet(minPoll, "Restarting mysqld with its new size")
}

// inPlace changes the limits of a running pod and the settings of its mysqld. It returns false if the pod must be
// replaced: it does not run, or the cluster cannot resize it (before 1.33, and before 1.34 for less memory).
func (r resizer) inPlace(ctx context.Context) (bool, error) {
	s := r.s
	next := s.state.Resize
	p, there, err := r.pod(ctx, s)
	if err != nil || !there {
		return false, err
	}
	if sentence := r.leaving(p); sentence != "" { // what is patched now would be lost with it
		return false, r.poll(p.Metadata.DeletionTimestamp, sentence)
	}
	if mysqldOf(p).State.Running == nil || p.Metadata.Annotations[workAnnotation] != "" ||
		s.expectLabels(api.Pods, p.Metadata) != nil { // the Service does not lead to it
		return false, nil
	}
	less := api.ToMilli(mysqldOf(p).Resources.Limits[memory]) > api.ToMilli(next.resources().Limits[memory])
	if less { // mysqld frees the memory before the limit changes
		if err := r.setGlobals(ctx, next.TriedMB > 0); err != nil {
			return false, err
		}
	}
	if !p.Wanted(containerName).Has(next.resources()) {
		p, err = r.patchPod(ctx, p.Metadata.UID, next.size)
		if api.IsNotFound(err) || api.IsStatus(err, http.StatusMethodNotAllowed) ||
			api.IsStatus(err, http.StatusUnprocessableEntity) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	if err := r.await(ctx, p); err != nil {
		return false, err
	}
	if !less {
		if err := r.setGlobals(ctx, 0 < next.TriedMB && next.TriedMB < next.MemoryMB); err != nil {
			return false, err
		}
	}
	return true, nil
}

// patchPod changes the limits of that pod. If another broker has continued the work meanwhile, patchPod restores what
// that one wants: a pod that is as both of them know it has no version that could be a condition.
func (r resizer) patchPod(ctx context.Context, uid string, to size) (resized api.Pod, err error) {
	s := r.s
	if err := r.expectWork(ctx, s); err != nil {
		return resized, err
	}
	path := r.api.Path(api.Pods, s.podName(), "resize")
	if err := r.api.StrategicMerge(ctx, path, podResize(uid, to), &resized); err != nil {
		return resized, err
	}
	now, err := r.find(ctx, s.id)
	if err != nil {
		return resized, err
	}
	if stale := now.sameWork(s); stale != nil {
		return resized, errors.Join(stale, r.api.StrategicMerge(ctx, path, podResize(uid, now.wanted()), nil))
	}
	return resized, nil
}

// podResize is a patch that changes the resources of mysqld's container, and nothing else of the pod.
// https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/
func podResize(uid string, to size) any {
	type resized struct {
		Name      string        `json:"name"`
		Resources api.Resources `json:"resources"`
	}
	return map[string]any{"metadata": map[string]string{"uid": uid},
		"spec": map[string]any{"containers": []resized{{containerName, to.resources()}}}}
}

// await returns NotYet until the node has changed the limits. If the node lacks room for too long, it restores the
// pod's former size.
func (r resizer) await(ctx context.Context, p api.Pod) error {
	s := r.s
	pending := p.Condition("PodResizePending")
	switch {
	case mysqldOf(p).Resources.Has(s.state.Resize.resources()):
		return nil // what is pending is a size that was given up
	case pending.Status == "True" && (pending.Reason == "Infeasible" ||
		!pending.LastTransitionTime.IsZero() && r.api.Since(pending.LastTransitionTime) > r.cfg.PlaceTimeout):
		_, err := r.patchPod(ctx, p.Metadata.UID, s.state.size)
		return launcher.NoRoom(errors.Join(fmt.Errorf("server %s: its node has no room: %s", s.id, pending.Message), err))
	case pending.Status == "True":
		return launcher.NotYet(time.Second, "Waiting until the server's node has room")
	}
	return launcher.NotYet(minPoll, "Changing the server's memory")
}
