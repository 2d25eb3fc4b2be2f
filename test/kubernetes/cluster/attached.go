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
)

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
	if c.ca, err = readAuthority(filepath.Join(dir, "pki")); err != nil {
		return nil, n, err
	}
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
	out, err := n.c.Containerd(context.Background(), args...)
	if err != nil {
		return ""
	}
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

type containerIDs struct {
	Items []struct {
		Metadata metadata
		Status   struct {
			ContainerStatuses []struct{ ContainerID string }
		}
	}
}

// containers are the ids of the main containers of a namespace's pods, by the pods' names.
func (n Node) containers(namespace string) map[string]string {
	status, answer, err := n.c.Call(context.Background(), http.MethodGet, "/api/v1/namespaces/"+namespace+"/pods", nil)
	var pods containerIDs
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
