// Package node runs real Kubernetes nodes for tests beside the control plane of test/kubernetes/cluster: containerd and
// runc of Debian's packages, the kubelet, kube-proxy and the scheduler that test/kubernetes/programs builds, and a name
// server. It needs root, and takes namespaces of its own (see Enter), so that nothing of it is left on the host.
//
// One node is in the network of the control plane. Each of several has a network and control groups of its own: the
// control plane routes between them, and serves the node ports.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"text/template"
	"time"

	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/limits"
)

const (
	// Address is that of the control plane, and of a single node. Node ports are there, and pods reach programs of the
	// host that listen at it.
	Address = "10.88.0.1"

	addresses = "10.88.0.0/24"
	services  = "10.96.0.0/16"
	pods      = "10.244.0.0/16"
)

// Nodes is a cluster with nodes.
type Nodes struct {
	*cluster.Cluster
	All []cluster.RealNode

	machines []machine
}

// machine is a node with what its configuration needs.
type machine struct {
	cluster.RealNode
	Cluster string // the directory of the cluster's state
	Pods    string // the range of its pods' addresses
}

// Program is the name of a program of the node.
func (m machine) Program(name string) string {
	if m.Router == "" {
		return name
	}
	return name + "-" + m.Name
}

// plan describes count nodes.
func plan(count int, dir string) (all []machine) {
	if count == 1 { // "node" is the one that volumes are on, see cluster.StorageClass
		only := cluster.RealNode{Name: "node", Address: Address, Dir: dir}
		return []machine{{RealNode: only, Cluster: dir, Pods: "10.244.0.0/24"}}
	}
	for n := 1; n <= count; n++ {
		name := "node-" + strconv.Itoa(n)
		all = append(all, machine{RealNode: cluster.RealNode{Name: name, Address: fmt.Sprintf("10.88.0.%d", 1+n),
			Dir: filepath.Join(dir, name), Group: groups + "/" + name, Router: Address},
			Cluster: dir, Pods: fmt.Sprintf("10.244.%d.0/24", n)})
	}
	return all
}

// Start starts a control plane and nodes, and returns when pods can be run. It has to be called inside of Enter.
// archives are images that pods find.
func Start(ctx context.Context, cfg cluster.Config, count int, archives []string) (_ *Nodes, err error) {
	ctx, cancel := context.WithTimeout(ctx, limits.Stuck)
	defer cancel()
	cfg.Address, cfg.OnNodes = Address, count > 1
	c, err := cluster.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	n := &Nodes{Cluster: c, machines: plan(count, cfg.Dir)}
	defer func() {
		if err != nil {
			n.Stop()
		}
	}()
	if err := errors.Join(n.startScheduler(), n.serveNames(ctx)); err != nil {
		return nil, err
	}
	if _, err := n.Login("proxy", "system:kube-proxy", ""); err != nil {
		return nil, err
	}
	for _, m := range n.machines {
		n.All = append(n.All, m.RealNode)
		if err := n.startNode(ctx, m, archives); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	for _, m := range n.machines {
		if err := n.awaitReady(ctx, m); err != nil {
			return nil, err
		}
	}
	if count > 1 {
		return n, n.startRouter()
	}
	return n, nil
}

// startRouter starts a kube-proxy for node ports and Services in the control plane's own network. It knows those of the
// first node, but goes on without that: its files are not the node's, see RealNode.Signal.
func (n *Nodes) startRouter() error {
	text, err := os.ReadFile(filepath.Join(n.machines[0].Dir, "kube-proxy.yaml"))
	if err != nil {
		return err
	}
	config := filepath.Join(n.machines[0].Cluster, "kube-proxy.yaml")
	if err := os.WriteFile(config, text, 0o644); err != nil {
		return err
	}
	return n.Run("kube-proxy", "--config="+config)
}

func (n *Nodes) startNode(ctx context.Context, m machine, archives []string) error {
	if err := errors.Join(os.MkdirAll(m.Dir, 0o755), m.writeConfigs()); err != nil {
		return err
	}
	if m.Router != "" {
		if err := errors.Join(m.makeNetwork(ctx), m.makeControlGroups()); err != nil {
			return err
		}
	}
	if err := n.keep(m, "containerd", "--config="+filepath.Join(m.Dir, "containerd.toml")); err != nil {
		return err
	}
	if err := importImages(ctx, m, archives); err != nil {
		return err
	}
	config, err := n.Login(m.Program("kubelet"), "system:node:"+m.Name, "system:nodes", m.Address, m.Name)
	if err != nil {
		return err
	}
	if err := n.keep(m, "kubelet", "--config="+filepath.Join(m.Dir, "kubelet.yaml"), "--kubeconfig="+config,
		"--hostname-override="+m.Name, "--node-ip="+m.Address, "--root-dir="+filepath.Join(m.Dir, "kubelet")); err != nil {
		return err
	}
	return n.keep(m, "kube-proxy", "--config="+filepath.Join(m.Dir, "kube-proxy.yaml"))
}

// keep runs a program of a node.
func (n *Nodes) keep(m machine, program string, args ...string) error {
	return n.Keep(m.Program(program), m.Command(append([]string{program}, args...)...)...)
}

func (m machine) writeConfigs() error {
	for name, text := range map[string]string{"containerd.toml": containerdConfig, "cni/test.conflist": cniConfig,
		"kubelet.yaml": kubeletConfig, "kube-proxy.yaml": proxyConfig,
		"resolv.conf": "# there is no name server but the cluster's\n"} {
		path := filepath.Join(m.Dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		file, err := os.Create(path)
		if err != nil {
			return err
		}
		made, err := template.New(name).Parse(text)
		if err == nil {
			err = made.Execute(file, m)
		}
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// makeNetwork makes the network of one of several nodes, which begins with a link to the control plane.
func (m machine) makeNetwork(ctx context.Context) error {
	link := m.Link()
	for _, command := range []string{
		"netns add " + m.Name,
		"link add " + link + " mtu 65535 type veth peer name eth0 mtu 65535 netns " + m.Name,
		"-n " + m.Name + " link set lo up",
		"-n " + m.Name + " address add " + m.Address + "/32 dev eth0",
		"link set " + link + " up",
		"route add " + m.Address + " dev " + link + " src " + Address,
		"route add " + m.Pods + " via " + m.Address + " dev " + link + " onlink src " + Address,
	} {
		if err := ip(command); err != nil {
			return err
		}
	}
	if err := m.Connect(ctx); err != nil {
		return err
	}
	command := m.Command("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
	return exec.CommandContext(ctx, command[0], command[1:]...).Run()
}

// makeControlGroups makes that of one of several nodes in each hierarchy.
func (m machine) makeControlGroups() error {
	hierarchies, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs") // of version 1
	if len(hierarchies) == 0 {
		hierarchies = []string{"/sys/fs/cgroup/cgroup.procs"}
	}
	for _, path := range hierarchies {
		err = errors.Join(err, os.MkdirAll(filepath.Join(filepath.Dir(path), m.Group), 0o755))
	}
	return err
}

func (n *Nodes) startScheduler() error {
	config, err := n.Login("scheduler", "system:kube-scheduler", "")
	if err != nil {
		return err
	}
	return n.Run("kube-scheduler", "--kubeconfig="+config, "--leader-elect=false", "--bind-address=127.0.0.1")
}

// awaitReady returns when the scheduler may use the node.
func (n *Nodes) awaitReady(ctx context.Context, m machine) error {
	for {
		ready, err := n.ready(ctx, m.Name)
		if ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready in time, see %s: %w", m.Name, filepath.Join(m.Cluster, "log"),
				errors.Join(err, ctx.Err()))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (n *Nodes) ready(ctx context.Context, name string) (bool, error) {
	var node struct {
		Spec   struct{ Taints []any }
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	status, answer, err := n.Call(ctx, http.MethodGet, "/api/v1/nodes/"+name, nil)
	if err != nil || status != http.StatusOK {
		return false, err
	}
	if err := json.Unmarshal(answer, &node); err != nil {
		return false, err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == "Ready" && c.Status == "True" && len(node.Spec.Taints) == 0 {
			return true, nil
		}
	}
	return false, nil
}

func importImages(ctx context.Context, m machine, archives []string) error {
	for {
		if _, err := m.Ctr(ctx, "version"); err == nil {
			break
		} else if ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, archive := range archives {
		if _, err := m.Ctr(ctx, "image", "import", archive); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends all pods, and then the programs.
func (n *Nodes) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	for _, m := range n.machines {
		_ = n.Kill(m.Program("kubelet")) // it would start them again; it may have been killed
		out, err := m.Ctr(ctx, "task", "list", "--quiet")
		if err != nil {
			continue
		}
		for _, id := range words(out) {
			_, _ = m.Ctr(ctx, "task", "kill", "--signal", "SIGKILL", id) // it may have ended
		}
	}
	n.Cluster.Stop()
}

// stopTime bounds how long Stop waits for containerd, which a test may have left stopped.
const stopTime = 30 * time.Second
