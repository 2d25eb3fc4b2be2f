package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mysql-broker/provisioner/launcher/mysqld"
)

// NodeConfig says what a played node is like.
type NodeConfig struct {
	Images map[string]Image // those that pods can use, by their names

	Address  string // of the node, an address of this host; Services' node ports are there
	MemoryMB int    // that pods may ask for, each and all together
}

// Image is a container image. Containers see the programs of this host, whatever their image.
type Image struct {
	Path string            // $PATH
	Dirs map[string]string // directories of this host, by where below /usr/local/share containers see them
	Make func() error      // makes the directories; nil if they are there
}

// Node plays scheduler, kubelet and kube-proxy: it runs the pods of all namespaces as the API says, and reports what a
// kubelet would. Containers are processes in namespaces of their own (see container.go) with the user, the volumes and
// the read-only root that the pod asks for; memory and processor are not limited. Of probes, it knows tcpSocket.
type Node struct {
	c   *Cluster
	cfg NodeConfig

	mu    sync.Mutex
	pods  map[string]*pod // by UID
	ports map[string]*forwarder
	addrs int
	added map[string]Image

	network *podNetwork       // nil until a pod needs it
	bound   map[string]apiPod // pods that have a node, by UID
	extra   map[string]int    // nodes that the pods of a namespace have besides the first one
	count   int               // of extra nodes that are there
}

// AddImage implements Machine. Containers see all programs of this host, whatever the base.
func (n *Node) AddImage(_ context.Context, prefix, base string, b mysqld.Binary) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name := addedName(prefix, base)
	n.added[name] = Image{Path: addedPath, Dirs: map[string]string{AddedDir: b.BaseDir}}
	return name, nil
}

func (n *Node) image(name string) (Image, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if image, there := n.added[name]; there {
		return image, true
	}
	image, there := n.cfg.Images[name]
	return image, there
}

// heartbeat is shorter than 40 s, after which the node-lifecycle controller considers the node lost.
const heartbeat = 5 * time.Second

// Play registers the node and runs what is scheduled to it until the cluster stops.
func (c *Cluster) Play(ctx context.Context, cfg NodeConfig) (*Node, error) {
	if os.Getuid() != 0 {
		return nil, errors.New("containers need namespaces, which need root")
	}
	n := &Node{c: c, cfg: cfg, pods: map[string]*pod{}, ports: map[string]*forwarder{}, added: map[string]Image{},
		extra: map[string]int{}, bound: map[string]apiPod{}}
	if err := n.register(ctx, nodeName); err != nil {
		return nil, err
	}
	c.loops.Go(func() {
		for {
			select {
			case <-c.background.Done():
				n.endAll()
				return
			case <-time.After(heartbeat):
			}
			for _, name := range n.names() {
				if err := n.beat(c.background, name); err != nil && c.background.Err() == nil {
					c.cfg.Logf("heartbeat of the %s: %v", name, err)
				}
			}
		}
	})
	watch(c, "/api/v1/pods", n.sync)
	watch(c, "/api/v1/services", n.forward)
	watch(c, "/api/v1/secrets", n.refresh)
	return n, nil
}

// register makes a node.
func (n *Node) register(ctx context.Context, name string) error {
	if err := n.c.send(ctx, http.MethodPost, "/api/v1/nodes", map[string]any{"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{"name": name,
			"labels": map[string]string{"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}}}); err != nil {
		return err
	}
	return n.beat(ctx, name)
}

// AddNodes gives the pods of a namespace that many nodes besides the first one. All are played by this one.
func (n *Node) AddNodes(ctx context.Context, namespace string, count int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for ; n.count < count; n.count++ {
		if err := n.register(ctx, extraNode(n.count+1)); err != nil {
			return err
		}
	}
	n.extra[namespace] = count
	return nil
}

func extraNode(number int) string { return nodeName + "-" + strconv.Itoa(number+1) }

// names are those of all nodes.
func (n *Node) names() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := []string{nodeName}
	for number := range n.count {
		all = append(all, extraNode(number+1))
	}
	return all
}

// beat reports a node healthy.
func (n *Node) beat(ctx context.Context, name string) error {
	now := time.Now().UTC().Format(time.RFC3339)
	room := map[string]string{"cpu": "64", "memory": strconv.Itoa(n.cfg.MemoryMB) + "Mi", "pods": "1000"}
	return n.c.send(ctx, http.MethodPatch, "/api/v1/nodes/"+name+"/status", map[string]any{"status": map[string]any{
		"capacity": room, "allocatable": room,
		"addresses": []any{map[string]string{"type": "InternalIP", "address": n.cfg.Address}},
		"conditions": []any{map[string]string{"type": "Ready", "status": "True", "reason": "KubeletReady",
			"lastHeartbeatTime": now, "lastTransitionTime": now}},
	}})
}

// sync does what a change of a pod asks for.
func (n *Node) sync(ctx context.Context, what string, api apiPod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[api.Metadata.UID]
	switch {
	case what == "DELETED":
		delete(n.bound, api.Metadata.UID)
		if p != nil {
			p.kill()
			delete(n.pods, api.Metadata.UID)
		}
	case api.Spec.NodeName == "":
		if api.Metadata.DeletionTimestamp == "" {
			n.schedule(ctx, api)
		}
	case p == nil && api.Metadata.DeletionTimestamp != "": // it was never started
		n.remove(ctx, api)
	case p == nil && api.Status.Phase != "Failed" && api.Status.Phase != "Succeeded":
		n.addrs++
		p = newPod(n, api, fmt.Sprintf("10.244.%d.%d", n.addrs/250, n.addrs%250+1))
		n.pods[api.Metadata.UID] = p
		n.c.loops.Go(func() { p.run(n.c.background) })
	case p != nil:
		p.change(api)
	}
}

// schedule binds a pod to the node, or says why not.
func (n *Node) schedule(ctx context.Context, api apiPod) {
	var asked int
	for _, c := range api.Spec.Containers {
		asked += megabytes(c.Resources.Requests["memory"])
	}
	used, free := 0, []string{nodeName}
	for number := range n.extra[api.Metadata.Namespace] {
		free = append(free, extraNode(number+1))
	}
	for _, p := range n.pods {
		used += p.requestedMB()
	}
	for _, other := range n.bound {
		if api.avoids(other) || other.avoids(api) {
			free = slices.DeleteFunc(free, func(name string) bool { return name == other.Spec.NodeName })
		}
	}
	path := api.path()
	leaving, err := n.claimLeaves(ctx, api)
	if err != nil {
		n.c.cfg.Logf("schedule %s: %v", api.Metadata.Name, err)
	}
	if used+asked > n.cfg.MemoryMB || len(free) == 0 || leaving {
		why := "0/1 nodes are available: 1 Insufficient memory."
		if leaving {
			why = "0/1 nodes are available: persistentvolumeclaim is being deleted."
		}
		if len(free) == 0 {
			why = "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."
		}
		err = n.c.send(ctx, http.MethodPatch, path+"/status", statusPatch(map[string]any{"conditions": []any{
			map[string]string{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
				"message":            why,
				"lastTransitionTime": api.Metadata.CreationTimestamp}}}))
		time.AfterFunc(time.Second, func() { n.retry(api) })
	} else {
		api.Spec.NodeName = free[0]
		n.bound[api.Metadata.UID] = api
		err = n.c.send(ctx, http.MethodPost, path+"/binding", map[string]any{"apiVersion": "v1", "kind": "Binding",
			"metadata": map[string]any{"name": api.Metadata.Name},
			"target":   map[string]any{"apiVersion": "v1", "kind": "Node", "name": free[0]}})
	}
	if err != nil && ctx.Err() == nil {
		n.c.cfg.Logf("schedule %s: %v", api.Metadata.Name, err)
	}
}

// claimLeaves reports whether a claim of a pod is being deleted: no scheduler lets a pod keep it.
func (n *Node) claimLeaves(ctx context.Context, api apiPod) (bool, error) {
	for _, v := range api.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		var c claim
		path := "/api/v1/namespaces/" + api.Metadata.Namespace + "/persistentvolumeclaims/" + v.PersistentVolumeClaim.ClaimName
		if found, err := n.c.read(ctx, path, &c); err != nil || found && c.Metadata.DeletionTimestamp != "" {
			return err == nil, err
		}
	}
	return false, nil
}

// avoids reports whether a pod must not be on the node of the other one.
func (p apiPod) avoids(other apiPod) bool {
	if p.Metadata.Namespace != other.Metadata.Namespace || p.Metadata.UID == other.Metadata.UID {
		return false
	}
	for _, term := range p.Spec.Affinity.PodAntiAffinity.Required {
		if selects(term.LabelSelector.MatchLabels, other.Metadata.Labels) {
			return true
		}
	}
	return false
}

func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// retry schedules a pod again for which there was no room.
func (n *Node) retry(old apiPod) {
	var api apiPod
	found, err := n.c.read(n.c.background, old.path(), &api)
	if err == nil && found && api.Metadata.UID == old.Metadata.UID {
		n.sync(n.c.background, "MODIFIED", api)
	}
}

// remove tells the API that nothing of a pod runs any more.
func (n *Node) remove(ctx context.Context, api apiPod) {
	err := n.c.send(context.WithoutCancel(ctx), http.MethodDelete, api.path(), map[string]any{
		"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
		"preconditions": map[string]string{"uid": api.Metadata.UID}})
	if err != nil && n.c.background.Err() == nil {
		n.c.cfg.Logf("remove %s: %v", api.Metadata.Name, err)
	}
}

// endAll kills what runs.
func (n *Node) endAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		p.kill()
	}
	for _, f := range n.ports {
		f.close()
	}
}

// Kill ends the process of the main container of a pod with SIGKILL, and reports whether there was one.
func (n *Node) Kill(namespace, name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		if p.first.Metadata.Namespace == namespace && p.first.Metadata.Name == name {
			return p.killContainer()
		}
	}
	return false
}

// Logs are what the containers of a namespace printed, and the arguments and the environment of those that run.
func (n *Node) Logs(namespace string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all strings.Builder
	for _, p := range n.pods {
		if p.first.Metadata.Namespace == namespace {
			all.WriteString(p.readable())
		}
	}
	return all.String()
}

// selected is a running pod of a namespace that has these labels; nil if there is none. The node is locked.
func (n *Node) selected(namespace string, selector map[string]string) *pod {
	for _, p := range n.pods {
		if p.first.Metadata.Namespace == namespace && selects(selector, p.first.Metadata.Labels) && p.pid() != 0 {
			return p
		}
	}
	return nil
}

// megabytes reads a quantity of memory. The API server writes 1048576Mi as 1Ti. A quantity that it cannot read has no
// room on any node: a mysqld that takes what it was wrongly given would stop this host.
func megabytes(quantity string) int {
	units := map[string]int{"Mi": 1, "Gi": 1 << 10, "Ti": 1 << 20}
	if quantity == "" {
		return 0
	}
	if len(quantity) > 2 && units[quantity[len(quantity)-2:]] > 0 {
		if n, err := strconv.Atoi(quantity[:len(quantity)-2]); err == nil {
			return n * units[quantity[len(quantity)-2:]]
		}
	}
	return math.MaxInt32
}

func statusPatch(status map[string]any) map[string]any { return map[string]any{"status": status} }

// Address is where the node ports are.
func (n *Node) Address() string { return n.cfg.Address }
