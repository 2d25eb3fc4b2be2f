package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// report tells the API how the pod is. Without a status of the main container, it is that of the one that runs.
func (p *pod) report(ctx context.Context, phase string, main, init map[string]any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if main == nil {
		main = p.status
	}
	if init == nil {
		init = p.init
	}
	if main == nil {
		return nil
	}
	if p.main != nil {
		resources := p.api.Spec.Containers[0].Resources
		main["resources"] = map[string]any{"requests": resources.Requests, "limits": resources.Limits}
		main["allocatedResources"] = resources.Requests
	}
	now := time.Now().UTC().Format(time.RFC3339)
	condition := func(kind string, is bool) map[string]string {
		return map[string]string{"type": kind, "status": map[bool]string{true: "True", false: "False"}[is],
			"lastTransitionTime": now}
	}
	status := map[string]any{"phase": phase, "hostIP": p.node.cfg.Address, "podIP": p.ip,
		"podIPs":            []any{map[string]string{"ip": p.ip}},
		"containerStatuses": []any{main}, "conditions": []any{condition("PodScheduled", true),
			condition("Initialized", phase == "Running"), condition("ContainersReady", p.ready), condition("Ready", p.ready)}}
	if init != nil {
		status["initContainerStatuses"] = []any{init}
	}
	return p.node.c.send(ctx, http.MethodPatch, p.first.path()+"/status", statusPatch(status))
}

func running(c apiContainer, restarts int, with *container, last map[string]any) map[string]any {
	return containerStatus(c, restarts, map[string]any{"running": map[string]string{
		"startedAt": time.Now().UTC().Format(time.RFC3339)}}, last, with.id)
}

func waiting(c apiContainer, reason string, restarts int, last map[string]any) map[string]any {
	return containerStatus(c, restarts, map[string]any{"waiting": map[string]string{"reason": reason}}, last, "")
}

func containerStatus(c apiContainer, restarts int, state, last map[string]any, id string) map[string]any {
	s := map[string]any{"name": c.Name, "image": c.Image, "imageID": c.Image, "ready": false, "started": false,
		"restartCount": restarts, "state": state, "lastState": map[string]any{}}
	if last != nil {
		s["lastState"] = map[string]any{"terminated": last}
	}
	if id != "" {
		s["containerID"] = id
	}
	return s
}

var errNoImage = errors.New("the image is not there")

// cannotPull reports what a kubelet does of an image that it cannot get.
func (p *pod) cannotPull(c apiContainer) error {
	main := waiting(p.first.Spec.Containers[0], "PodInitializing", 0, nil)
	if err := p.report(p.node.c.background, "Pending", main, waiting(c, "ErrImagePull", 0, nil)); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", errNoImage, c.Image)
}
