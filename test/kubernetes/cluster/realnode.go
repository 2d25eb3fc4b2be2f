package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// RealNode is a node with a kubelet and containerd. One of several is in a network namespace of its own, with a link to
// that of the control plane, which routes between nodes.
type RealNode struct {
	Name    string
	Address string
	Dir     string // its state, with containerd's socket
	Group   string // its control group, for one of several

	// Router is the address of the control plane, for one of several.
	Router string
}

// Link is the network interface of the control plane that leads to one of several nodes.
func (n RealNode) Link() string { return "to-" + n.Name }

// Command is a command that runs in the network of the node.
func (n RealNode) Command(command ...string) []string {
	if n.Router == "" {
		return command
	}
	return append([]string{"nsenter", "--net=/run/netns/" + n.Name}, command...)
}

func (n RealNode) ip(ctx context.Context, args ...string) error {
	command := n.Command(append([]string{"ip"}, args...)...)
	_, err := output(ctx, command[0], command[1:]...)
	return err
}

// Disconnect takes the link of one of several nodes down. What others send to it is lost.
func (n RealNode) Disconnect(ctx context.Context) error {
	return n.ip(ctx, "link", "set", "eth0", "down")
}

// Connect takes the link up, whose routes went with it.
func (n RealNode) Connect(ctx context.Context) error {
	if err := n.ip(ctx, "link", "set", "eth0", "up"); err != nil {
		return err
	}
	if err := n.ip(ctx, "route", "replace", n.Router, "dev", "eth0", "src", n.Address); err != nil {
		return err
	}
	return n.ip(ctx, "route", "replace", "default", "via", n.Router, "dev", "eth0", "src", n.Address)
}

// Signal sends a signal to all processes of one of several nodes: containers, and the programs that run them.
func (n RealNode) Signal(signal unix.Signal) error {
	pids, err := n.programs()
	if err != nil {
		return err
	}
	contained, err := n.contained()
	if err != nil {
		return err
	}
	for _, pid := range append(pids, contained...) {
		if err := unix.Kill(pid, signal); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("signal process %d of node %s: %w", pid, n.Name, err)
		}
	}
	return nil
}

// programs are the kubelet, kube-proxy, containerd and its shims: their arguments name files of the node.
func (n RealNode) programs() (pids []int, err error) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && bytes.Contains(text, []byte(n.Dir+"/")) && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// contained are the processes of the node's containers.
func (n RealNode) contained() (pids []int, err error) {
	root := "/sys/fs/cgroup/pids/"
	if _, err := os.Stat(root); err != nil {
		root = "/sys/fs/cgroup/" // version 2
	}
	err = filepath.WalkDir(filepath.Join(root, n.Group), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.Name() != "cgroup.procs" {
			if os.IsNotExist(err) {
				return nil
			}
			return err
		}
		text, err := os.ReadFile(path)
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return err
	})
	return pids, err
}

// Ctr calls containerd's client.
func (n RealNode) Ctr(ctx context.Context, args ...string) ([]byte, error) {
	args = append([]string{"--namespace=k8s.io", "--address=" + filepath.Join(n.Dir, "containerd.sock")}, args...)
	return output(ctx, "ctr", args...)
}
