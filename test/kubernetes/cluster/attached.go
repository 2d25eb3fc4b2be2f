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

	"golang.org/x/sys/unix"

	"mysql-broker/provisioner/launcher/mysqld"
)

// DirVar names the state directory of a cluster with a real node that another process runs, see test/kubernetes/node.
const DirVar = "KUBERNETES_DIR"

// Machine runs the pods of a cluster: a played node, or a real one.
type Machine interface {
	// Address is where the node ports are.
	Address() string

	// AddImage adds an image to those that pods can have: one that is there, base, with the tree of a program at AddedDir.
	// The program comes first in $PATH. The image's name begins with the prefix; no other image has it.
	AddImage(ctx context.Context, prefix, base string, b mysqld.Binary) (name string, err error)

	// Kill ends the process of the main container of a pod with SIGKILL, and reports whether there was one.
	Kill(namespace, name string) bool

	// Logs are what the containers of a namespace printed, and the arguments and the environment of those that run.
	Logs(namespace string) string
}

// sharedFile is where a cluster says how other processes reach it.
const sharedFile = "cluster.json"

type shared struct {
	URL, NodeAddress string
	Nodes            []RealNode
}

// Share lets other processes attach to the cluster, which has these real nodes, and node ports at the address.
func (c *Cluster) Share(nodeAddress string, nodes []RealNode) error {
	text, err := json.Marshal(shared{c.URL, nodeAddress, nodes})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.cfg.Dir, sharedFile), text, 0o600)
}

// attach returns the cluster that another process runs, and its node. Stop does not end it.
func attach(dir string) (*Cluster, Machine, error) {
	text, err := os.ReadFile(filepath.Join(dir, sharedFile))
	if err != nil {
		return nil, nil, err
	}
	var s shared
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, nil, err
	}
	c := &Cluster{URL: s.URL, cfg: Config{Dir: dir}, Kubeconfig: filepath.Join(dir, "pki", "admin.kubeconfig")}
	c.background, c.cancel = context.WithCancel(context.Background())
	if c.ca, err = readAuthority(filepath.Join(dir, "pki")); err != nil {
		return nil, nil, err
	}
	if c.CA, err = os.ReadFile(c.ca.path("ca.crt")); err != nil {
		return nil, nil, err
	}
	return c, RealNodes{c, s.NodeAddress, s.Nodes}, c.makeClient()
}

// RealNodes is a Machine whose containers are run by containerd, one on each node.
type RealNodes struct {
	c       *Cluster
	address string
	Nodes   []RealNode
}

func (r RealNodes) Address() string { return r.address }

// tasks are the processes of running containers, by the containers' ids.
func (r RealNodes) tasks() map[string]int {
	pids := map[string]int{}
	for _, n := range r.Nodes {
		out, err := n.Ctr(context.Background(), "task", "list")
		if err != nil {
			continue // containerd is being started again
		}
		for line := range strings.Lines(string(out)) {
			if fields := strings.Fields(line); len(fields) == 3 && fields[2] == "RUNNING" {
				if pid, err := strconv.Atoi(fields[1]); err == nil {
					pids[fields[0]] = pid
				}
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
func (r RealNodes) containers(namespace string) map[string]string {
	status, answer, err := r.c.Call(context.Background(), http.MethodGet, "/api/v1/namespaces/"+namespace+"/pods", nil)
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

// Process is that of the main container of a pod; 0 if none runs.
func (r RealNodes) Process(namespace, name string) int {
	return r.tasks()[r.containers(namespace)[name]]
}

func (r RealNodes) Kill(namespace, name string) bool {
	pid := r.Process(namespace, name)
	return pid != 0 && unix.Kill(pid, unix.SIGKILL) == nil
}

func (r RealNodes) Logs(namespace string) string {
	var files []string
	for _, n := range r.Nodes {
		found, err := filepath.Glob(filepath.Join(n.Dir, "pods", namespace+"_*", "*", "*.log"))
		if err != nil {
			return err.Error()
		}
		files = append(files, found...)
	}
	tasks := r.tasks()
	for _, id := range r.containers(namespace) {
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
