package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// podNetwork is a network namespace with a bridge, by which pods that listen at more than one port reach each other.
// Node ports lead to the first one without it.
type podNetwork struct {
	namespace *os.File
	links     int
}

// podBits is the length of the prefix of pods' addresses.
const podBits = 16

func newPodNetwork() (*podNetwork, error) {
	p := &podNetwork{}
	made := make(chan error)
	go func() {
		made <- inOwnThread(func() error {
			err := unix.Unshare(unix.CLONE_NEWNET)
			if err == nil {
				p.namespace, err = os.Open("/proc/thread-self/ns/net")
			}
			if err == nil {
				err = ip("link", "add", "pods", "type", "bridge")
			}
			if err == nil {
				err = ip("link", "set", "pods", "up")
			}
			return err
		})
	}()
	return p, <-made
}

// The first thread stays in its own network, because /proc/net shows that of the first thread: this keeps goroutines
// other than the first from running on it.
func init() { runtime.LockOSThread() }

// inOwnThread runs do in a thread that goes back to its own network. The thread must not end: the kernel would kill the
// containers that were started from it (PR_SET_PDEATHSIG).
func inOwnThread(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer own.Close()
	err = do()
	if back := enterNetwork(own); back != nil {
		panic(back) // the thread would go on in another network
	}
	return err
}

// inNetwork runs do in a network namespace.
func inNetwork(namespace *os.File, do func() error) error {
	done := make(chan error)
	go func() {
		done <- inOwnThread(func() error {
			if err := enterNetwork(namespace); err != nil {
				return err
			}
			return do()
		})
	}()
	return <-done
}

func ip(arguments ...string) error {
	if output, err := exec.Command("ip", arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(arguments, " "), err, output)
	}
	return nil
}

// attach gives a container an address in the network. The caller holds the node's lock.
func (p *podNetwork) attach(c *container, address string) error {
	p.links++
	link := "pod" + strconv.Itoa(p.links)
	if err := inNetwork(p.namespace, func() error {
		return errors.Join(ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns",
			strconv.Itoa(c.cmd.Process.Pid)), ip("link", "set", link, "master", "pods", "up"))
	}); err != nil {
		return err
	}
	return inNetwork(c.network, func() error {
		return errors.Join(ip("addr", "add", address+"/"+strconv.Itoa(podBits), "dev", "eth0"),
			ip("link", "set", "eth0", "up"))
	})
}

// networked reports whether a pod is in the network of pods.
func (p *pod) networked() bool { return len(p.first.Spec.Containers[0].Ports) > 1 }

// attach connects the main container of a pod, and returns once all others know its address.
func (n *Node) attach(p *pod, c *container) error {
	if !p.networked() {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.network == nil {
		var err error
		if n.network, err = newPodNetwork(); err != nil {
			return err
		}
	}
	if err := n.network.attach(c, p.ip); err != nil && c.pid() != 0 { // else it has ended
		return err
	}
	for _, other := range n.pods {
		if err := other.writeNames(); err != nil {
			return err
		}
	}
	return nil
}

// hostsFile has the names of the pods of headless Services, as a cluster's name server has them.
func (p *pod) hostsFile() string { return filepath.Join(p.dir, "hosts") }

// writeNames writes the file in place, because containers see the file that was there when they started. The node is
// locked.
func (p *pod) writeNames() error {
	if !p.networked() {
		return nil
	}
	lines := "127.0.0.1 localhost\n"
	for _, other := range p.node.pods {
		s := other.first.Spec
		if !other.networked() || other.first.Metadata.Namespace != p.first.Metadata.Namespace {
			continue
		}
		name := s.Hostname + "." + s.Subdomain + "." + p.first.Metadata.Namespace + ".svc"
		lines += other.ip + " " + name + ".cluster.local " + name + "\n"
	}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(p.hostsFile(), []byte(lines), 0o644)
}

// Cut cuts the main container of a pod off the network of pods, or connects it again. Node ports still lead to it.
func (n *Node) Cut(namespace, name string, off bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		if p.first.Metadata.Namespace != namespace || p.first.Metadata.Name != name {
			continue
		}
		p.mu.Lock()
		c := p.main
		p.mu.Unlock()
		if c == nil {
			break
		}
		return inNetwork(c.network, func() error {
			return ip("link", "set", "eth0", map[bool]string{true: "down", false: "up"}[off])
		})
	}
	return fmt.Errorf("no container of the pod %s runs", name)
}

// dial connects to a port inside of the container's network.
func (c *container) dial(ctx context.Context, port int) (conn net.Conn, err error) {
	err = inNetwork(c.network, func() (err error) {
		var dialer net.Dialer
		conn, err = dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		return err
	})
	return conn, err
}
