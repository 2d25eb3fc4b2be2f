package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
)

// ProgramsVar names the directory with the programs of `make kubernetes-programs`.
const ProgramsVar = "KUBERNETES_PROGRAMS"

// controllers are those that objects without a node need.
const controllers = "garbage-collector-controller,namespace-controller,persistentvolume-binder-controller," +
	"persistentvolumeclaim-protection-controller,resourcequota-controller,serviceaccount-controller," +
	"statefulset-controller"

// Shared is one cluster for all tests of a package, which use namespaces of their own.
type Shared struct {
	once sync.Once
	dir  string
	err  error

	*Cluster
	Node Node // of Start
}

// Start attaches to the cluster with a node that DirVar names. The test is skipped where there is none: `make
// kubernetes` starts one.
func (s *Shared) Start(t *testing.T) {
	t.Helper()
	dir := os.Getenv(DirVar)
	if dir == "" {
		t.Skip("there is no Kubernetes node: make kubernetes")
	}
	s.once.Do(func() { s.Cluster, s.Node, s.err = attach(dir) })
	require.NoError(t, s.err)
}

// StartAPI starts a control plane without a node, so that pods wait for one. It is for tests of objects. Where its
// programs were not built, the test is skipped.
func (s *Shared) StartAPI(t *testing.T) {
	t.Helper()
	programs := os.Getenv(ProgramsVar)
	if _, err := os.Stat(filepath.Join(programs, "kube-controller-manager.versions")); programs == "" || err != nil {
		t.Skip("the programs of Kubernetes were not built: make kubernetes-programs")
	}
	s.once.Do(func() {
		if s.dir, s.err = os.MkdirTemp("", "kubernetes"); s.err == nil {
			s.Cluster, s.err = Start(context.Background(), Config{Programs: programs, Dir: s.dir, Controllers: controllers})
		}
	})
	require.NoError(t, s.err)
}

// Close stops what StartAPI has started.
func (s *Shared) Close() error {
	if s.Cluster != nil {
		s.Stop()
	}
	return os.RemoveAll(s.dir) // of StartAPI; nothing for ""
}

// Binaries are the mysqld that the node has images of.
var Binaries = sync.OnceValue(func() []mysqld.Binary {
	return mysqld.FindBinaries(filepath.SplitList(os.Getenv("MYSQLD"))...)
})

// ImageName is that of an image of a mysqld of this host, made as deploy/mysqld-image says.
func ImageName(b mysqld.Binary) string { return "test/" + b.Flavour + ":" + strings.ToLower(b.Version) }

// OfficialImage is that of an image which has no data directory ready.
func OfficialImage(b mysqld.Binary) string {
	return "official/" + b.Flavour + ":" + strings.ToLower(b.Version)
}

// DirVar names the state directory of a cluster with a node that another process runs, see test/kubernetes/node.
const DirVar = "KUBERNETES_DIR"

// sharedFile is where a cluster says how other processes reach it.
const sharedFile = "cluster.json"

type shared struct{ URL, NodeAddress string }

// Share lets other processes attach to the cluster, whose node has this address.
func (c *Cluster) Share(nodeAddress string) error {
	text, err := json.Marshal(shared{c.URL, nodeAddress})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.cfg.Dir, sharedFile), text, 0o600)
}

// attach returns the cluster that another process runs, and its node. Stop does not end it.
func attach(dir string) (c *Cluster, n Node, err error) {
	text, err := os.ReadFile(filepath.Join(dir, sharedFile))
	if err != nil {
		return nil, n, err
	}
	var s shared
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, n, err
	}
	c = &Cluster{URL: s.URL, cfg: Config{Dir: dir}, Kubeconfig: filepath.Join(dir, "pki", "admin.kubeconfig")}
	c.background, c.cancel = context.WithCancel(context.Background())
	c.ca = &authority{dir: filepath.Join(dir, "pki")} // which signs nothing
	if c.CA, err = os.ReadFile(c.ca.path("ca.crt")); err != nil {
		return nil, n, err
	}
	return c, Node{c, s.NodeAddress}, c.makeClient()
}

// Node runs the pods of a cluster by containerd.
type Node struct {
	c       *Cluster
	address string
}

// Address is where the node ports are.
func (n Node) Address() string { return n.address }

// Containerd calls containerd's client.
func (c *Cluster) Containerd(ctx context.Context, args ...string) ([]byte, error) {
	args = append([]string{"--namespace=k8s.io", "--address=" + filepath.Join(c.cfg.Dir, "containerd.sock")}, args...)
	return output(ctx, "ctr", args...)
}

// ctr is Containerd for what may fail.
func (n Node) ctr(args ...string) string {
	out, _ := n.c.Containerd(context.Background(), args...)
	return string(out)
}

// tasks are the processes of running containers, by the containers' ids.
func (n Node) tasks() map[string]int {
	pids := map[string]int{}
	for line := range strings.Lines(n.ctr("task", "list")) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] == "RUNNING" {
			if pid, err := strconv.Atoi(fields[1]); err == nil {
				pids[fields[0]] = pid
			}
		}
	}
	return pids
}

// containers are the ids of the main containers of a namespace's pods, by the pods' names.
func (n Node) containers(namespace string) map[string]string {
	status, answer, err := n.c.Call(context.Background(), http.MethodGet, "/api/v1/namespaces/"+namespace+"/pods", nil)
	var pods struct {
		Items []struct {
			Metadata metadata
			Status   struct {
				ContainerStatuses []struct{ ContainerID string }
			}
		}
	}
	if err != nil || status != http.StatusOK || json.Unmarshal(answer, &pods) != nil {
		return nil
	}
	ids := map[string]string{}
	for _, p := range pods.Items {
		if len(p.Status.ContainerStatuses) > 0 {
			ids[p.Metadata.Name] = strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
		}
	}
	return ids
}

// Kill ends the process of the main container of a pod with SIGKILL, and reports whether there was one.
func (n Node) Kill(namespace, name string) bool {
	id := n.containers(namespace)[name]
	if n.tasks()[id] == 0 {
		return false
	}
	n.ctr("task", "kill", "--signal", "SIGKILL", id)
	return true
}

// Logs are what the containers of a namespace printed, and the arguments and the environment of those that run.
func (n Node) Logs(namespace string) string {
	files, err := filepath.Glob(filepath.Join(n.c.cfg.Dir, "pods", namespace+"_*", "*", "*.log"))
	if err != nil {
		return err.Error()
	}
	tasks := n.tasks()
	for _, id := range n.containers(namespace) {
		if pid := tasks[id]; pid != 0 {
			files = append(files, fmt.Sprintf("/proc/%d/cmdline", pid), fmt.Sprintf("/proc/%d/environ", pid))
		}
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		all.Write(text)
	}
	return all.String()
}
