// Package node runs a real Kubernetes node for tests beside the control plane of test/kubernetes/cluster: containerd and
// runc of Debian's packages, the kubelet, kube-proxy and the scheduler that test/kubernetes/programs builds, and a name
// server. It runs in namespaces that test/kubernetes/with-node.sh makes, so that nothing of it is left on the host.
//
// There can be one on a host: kubelets share the control groups below /kubepods, and a second one would kill the pods of
// the first.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/limits"
)

const (
	// Address is the node's. Node ports are there, and pods reach programs of the host that listen at it.
	Address = "10.88.0.1"

	name = "node" // the one that volumes are on, see cluster.StorageClass
	pods = "10.244.0.0/24"
)

// Node is a cluster with one node.
type Node struct {
	*cluster.Cluster
	dir string
}

// Start starts a control plane and a node, and returns when pods can be run. archives are images that
// pods find.
func Start(ctx context.Context, cfg cluster.Config, archives []string) (_ *Node, err error) {
	ctx, cancel := context.WithTimeout(ctx, limits.Stuck)
	defer cancel()
	cfg.Address = Address
	c, err := cluster.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	n := &Node{Cluster: c, dir: cfg.Dir}
	defer func() {
		if err != nil {
			n.Stop()
		}
	}()
	for _, step := range []func(context.Context) error{
		n.startRuntime, func(ctx context.Context) error { return n.importImages(ctx, archives) },
		n.startScheduler, n.startKubelet, n.startProxy, n.serveNames, n.awaitReady,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (n *Node) startRuntime(context.Context) error {
	for name, text := range map[string]string{"containerd.toml": containerdConfig, "cni/test.conflist": cniConfig,
		"kubelet.yaml": kubeletConfig, "resolv.conf": "# %[1]s: there is no name server but the cluster's\n"} {
		path := filepath.Join(n.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, fmt.Appendf(nil, text, n.dir), 0o644)); err != nil {
			return err
		}
	}
	return n.Run("containerd", "--config="+filepath.Join(n.dir, "containerd.toml"))
}

func (n *Node) startScheduler(context.Context) error {
	config, err := n.Login("scheduler", "system:kube-scheduler", "")
	if err != nil {
		return err
	}
	return n.Run("kube-scheduler", "--kubeconfig="+config, "--leader-elect=false", "--bind-address=127.0.0.1")
}

func (n *Node) startKubelet(context.Context) error {
	config, err := n.Login("kubelet", "system:node:"+name, "system:nodes", Address, name)
	if err != nil {
		return err
	}
	return n.Run("kubelet", "--config="+filepath.Join(n.dir, "kubelet.yaml"), "--kubeconfig="+config,
		"--hostname-override="+name, "--node-ip="+Address, "--root-dir="+filepath.Join(n.dir, "kubelet"))
}

func (n *Node) startProxy(context.Context) error {
	config, err := n.Login("proxy", "system:kube-proxy", "")
	if err != nil {
		return err
	}
	path := filepath.Join(n.dir, "kube-proxy.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, proxyConfig, config), 0o644); err != nil {
		return err
	}
	return n.Run("kube-proxy", "--config="+path)
}

// awaitReady returns when the scheduler may use the node.
func (n *Node) awaitReady(ctx context.Context) error {
	for {
		ready, err := n.ready(ctx)
		if ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the node was not ready in time, see %s: %w", filepath.Join(n.dir, "log"),
				errors.Join(err, ctx.Err()))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (n *Node) ready(ctx context.Context) (bool, error) {
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

func (n *Node) importImages(ctx context.Context, archives []string) error {
	for {
		if _, err := n.Containerd(ctx, "version"); err == nil {
			break
		} else if ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, archive := range archives {
		if _, err := n.Containerd(ctx, "image", "import", archive); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends all pods, and then the programs.
func (n *Node) Stop() {
	out, err := n.Containerd(context.Background(), "task", "list", "--quiet")
	if kubelet := n.Pid("kubelet"); err == nil && kubelet != 0 {
		_ = syscall.Kill(kubelet, syscall.SIGKILL) // it would start them again; it may have been killed
		for _, id := range strings.Fields(string(out)) {
			_, _ = n.Containerd(context.Background(), "task", "kill", "--signal", "SIGKILL", id) // it may have ended
		}
	}
	n.Cluster.Stop()
}

// Configurations of the node's programs. %[1]s is the directory of the cluster's state.

const containerdConfig = `version = 2
root = "%[1]s/containerd/root"
state = "%[1]s/containerd/state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs", "io.containerd.internal.v1.opt"]
[grpc]
address = "%[1]s/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "` + pauseImage + `"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "%[1]s/cni"
`

// ptp routes every pod by itself, so that kube-proxy sees all packets without bridge netfilter.
const cniConfig = `{"cniVersion": "0.4.0", "name": "test", "plugins": [
  {"type": "ptp", "mtu": 65535, "ipam": {"type": "host-local", "dataDir": "%[1]s/ipam",
   "ranges": [[{"subnet": "` + pods + `"}]], "routes": [{"dst": "0.0.0.0/0"}]}}
]}
`

// The kubelet accepts control groups of version 1, and does not change those of the host.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: ` + Address + `
readOnlyPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: %[1]s/pki/ca.crt}}
authorization: {mode: AlwaysAllow}
tlsCertFile: %[1]s/pki/kubelet.crt
tlsPrivateKeyFile: %[1]s/pki/kubelet.key
containerRuntimeEndpoint: unix://%[1]s/containerd.sock
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
localStorageCapacityIsolation: false
resolvConf: %[1]s/resolv.conf
clusterDNS: [` + Address + `]
clusterDomain: cluster.local
podLogsDir: %[1]s/pods
volumePluginDir: %[1]s/plugins
evictionHard: {memory.available: 100Mi}
shutdownGracePeriod: 0s
nodeStatusUpdateFrequency: 2s
`

const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clientConnection: {kubeconfig: %q}
clusterCIDR: ` + pods + `
hostnameOverride: ` + name + `
conntrack: {maxPerCore: 0, min: 0}
`
