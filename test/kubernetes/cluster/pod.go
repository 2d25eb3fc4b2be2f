package cluster

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// pod is one that the node runs.
type pod struct {
	node *Node
	dir  string // its Secrets, logs and directories
	ip   string

	first apiPod // as it was when the node got it; its name, namespace and labels stay

	mu     sync.Mutex
	api    apiPod
	main   *container
	status map[string]any // of the main container
	init   map[string]any // of the init container, once it has ended well
	ready  bool
	ending context.CancelFunc
}

func newPod(n *Node, api apiPod, ip string) *pod {
	return &pod{node: n, first: api, api: api, ip: ip, dir: filepath.Join(n.c.cfg.Dir, "pods", api.Metadata.UID)}
}

func (p *pod) current() apiPod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.api
}

func (p *pod) requestedMB() int {
	asked := 0
	for _, c := range p.current().Spec.Containers {
		asked += megabytes(c.Resources.Requests["memory"])
	}
	return asked
}

// run runs a pod until it is deleted.
func (p *pod) run(ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	p.mu.Lock()
	p.ending = end
	deleted := p.api.Metadata.DeletionTimestamp != ""
	p.mu.Unlock()
	if !deleted {
		if err := p.runContainers(ctx); err != nil && ctx.Err() == nil {
			p.node.c.cfg.Logf("pod %s: %v", p.first.Metadata.Name, err)
			<-ctx.Done()
		}
	}
	if p.node.c.background.Err() == nil {
		p.node.remove(ctx, p.current())
	}
}

// runContainers returns when the context ends: containers that end are started again.
func (p *pod) runContainers(ctx context.Context) error {
	api := p.current()
	mounts, err := p.prepareVolumes(ctx)
	if err != nil {
		return err
	}
	p.node.mu.Lock()
	err = p.writeNames()
	p.node.mu.Unlock()
	if err != nil {
		return err
	}
	for _, init := range api.Spec.InitContainers {
		if err := p.runInit(ctx, init, api.Spec.Containers[0], mounts); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return p.runMain(ctx, api.Spec.Containers[0], mounts)
}

// runInit returns when an init container has succeeded, or the context ends.
func (p *pod) runInit(ctx context.Context, init, main apiContainer, mounts map[string]string) error {
	var last map[string]any
	for restarts := 0; ; restarts++ {
		c, err := p.start(init, mounts)
		if err != nil {
			return err
		}
		if err := p.report(ctx, "Pending", waiting(main, "PodInitializing", restarts, nil),
			running(init, restarts, c, last)); err != nil {
			return err
		}
		exit := c.wait(ctx, nil)
		if ctx.Err() != nil {
			return nil
		}
		if exit == 0 {
			p.setInit(containerStatus(init, restarts, map[string]any{"terminated": c.terminated()}, last, c.id))
			return nil
		}
		last = c.terminated()
		if err := p.report(ctx, "Pending", waiting(main, "PodInitializing", 0, nil),
			waiting(init, "CrashLoopBackOff", restarts+1, last)); err != nil {
			return err
		}
		if err := pause(ctx, restarts); err != nil {
			return nil
		}
	}
}

// runMain returns when the context ends.
func (p *pod) runMain(ctx context.Context, main apiContainer, mounts map[string]string) error {
	var last map[string]any
	for restarts := 0; ; restarts++ {
		c, err := p.start(main, mounts)
		if err != nil {
			return err
		}
		if err := p.node.attach(p, c); err != nil {
			return err
		}
		p.setMain(c, running(main, restarts, c, last))
		p.node.reroute()
		if err := p.report(ctx, "Running", nil, nil); err != nil && ctx.Err() == nil {
			return err
		}
		probed, stop := context.WithCancel(ctx)
		go p.probe(probed, c)
		exit := c.wait(ctx, p.grace)
		stop()
		p.setMain(nil, nil)
		p.node.reroute()
		if ctx.Err() != nil {
			return nil
		}
		p.node.c.cfg.Logf("%s: the container ended with %d", p.first.Metadata.Name, exit)
		last = c.terminated()
		if err := p.report(ctx, "Running", waiting(main, "CrashLoopBackOff", restarts+1, last), nil); err != nil &&
			ctx.Err() == nil {
			return err
		}
		if err := pause(ctx, restarts); err != nil {
			return nil
		}
	}
}

// pause waits before a container is started again, as a kubelet does but shorter: at once, 1 s, 2 s, …
func pause(ctx context.Context, restarts int) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(min(restarts, 10)) * time.Second):
		return nil
	}
}

// grace is how long the main container may take to end: as the deletion of the pod says, but at most 30 s.
func (p *pod) grace() time.Duration {
	most := 30 * time.Second
	if api := p.current(); api.Metadata.DeletionTimestamp != "" {
		return min(most, time.Duration(api.Metadata.DeletionGracePeriodSeconds)*time.Second)
	}
	return most
}

func (p *pod) setMain(c *container, status map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.main, p.status, p.ready = c, status, false
}

func (p *pod) setInit(status map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.init = status
}

// probe reports the container ready once something listens at the port of its startup probe.
func (p *pod) probe(ctx context.Context, c *container) {
	for {
		if conn, err := c.dial(ctx, mysqlPort); err == nil {
			_ = conn.Close()
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
	p.mu.Lock()
	if p.main != c {
		p.mu.Unlock()
		return
	}
	p.ready = true
	p.status["ready"], p.status["started"] = true, true
	p.mu.Unlock()
	if err := p.report(ctx, "Running", nil, nil); err != nil && ctx.Err() == nil {
		p.node.c.cfg.Logf("pod %s: %v", p.first.Metadata.Name, err)
	}
}

// change reacts to a change of the pod.
func (p *pod) change(api apiPod) {
	p.mu.Lock()
	resized := fmt.Sprint(api.Spec.Containers[0].Resources) != fmt.Sprint(p.api.Spec.Containers[0].Resources)
	p.api = api
	ending := p.ending
	p.mu.Unlock()
	if api.Metadata.DeletionTimestamp != "" && ending != nil {
		ending()
		return
	}
	if resized { // in place, at once
		p.node.c.loops.Go(func() {
			ctx := p.node.c.background
			if err := p.report(ctx, "Running", nil, nil); err != nil && ctx.Err() == nil {
				p.node.c.cfg.Logf("resize of %s: %v", api.Metadata.Name, err)
			}
		})
	}
}

// start runs a container of the pod, whose image has to be there.
func (p *pod) start(c apiContainer, mounts map[string]string) (*container, error) {
	image, there := p.node.image(c.Image)
	if !there {
		return nil, p.cannotPull(c)
	}
	if image.Make != nil {
		if err := image.Make(); err != nil {
			return nil, err
		}
	}
	security := p.current().Spec.SecurityContext
	with := containerConfig{Dir: filepath.Join(p.dir, c.Name), Path: image.Path,
		Command: append(slices.Clone(c.Command), c.Args...), User: security.RunAsUser, Group: security.RunAsGroup,
		ExtraGroup: security.FSGroup, Mounts: map[string]string{}}
	maps.Copy(with.Mounts, image.Dirs)
	for _, m := range c.VolumeMounts {
		with.Mounts[m.MountPath] = mounts[m.Name]
	}
	if p.networked() {
		with.Mounts["/etc/hosts"] = p.hostsFile()
	}
	return startContainer(with)
}

func (p *pod) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.main == nil {
		return 0
	}
	return p.main.pid()
}

func (p *pod) killContainer() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.main == nil {
		return false
	}
	p.main.kill()
	return true
}

// kill ends a pod at once.
func (p *pod) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.main != nil {
		p.main.kill()
	}
	if p.ending != nil {
		p.ending()
	}
}

// readable is what its containers printed, and the arguments and the environment of the main one.
func (p *pod) readable() string {
	var all strings.Builder
	files, err := filepath.Glob(filepath.Join(p.dir, "*", "log"))
	if err != nil {
		return err.Error()
	}
	if pid := p.pid(); pid != 0 {
		proc := fmt.Sprintf("/proc/%d/", pid)
		files = append(files, proc+"cmdline", proc+"environ")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err.Error()
		}
		all.Write(text)
	}
	return all.String()
}
