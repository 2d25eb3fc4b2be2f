package cluster

import (
	"net"
	"os"
	"testing"
	"time"
)

// Containers in the network of pods reach each other at their addresses, unless one is cut off.
func TestPodNetwork(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("containers need root")
	}
	t.Parallel()
	pods, err := newPodNetwork()
	if err != nil {
		t.Fatal(err)
	}
	defer pods.namespace.Close()
	var all []*container
	for _, address := range []string{"10.244.0.1", "10.244.0.2"} {
		c, err := startContainer(containerConfig{Dir: t.TempDir(), Path: "/usr/bin:/bin", Command: []string{"sleep", "60"}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			c.kill()
			<-c.done
		}()
		if err := pods.attach(c, address); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	var listener net.Listener
	if err := inNetwork(all[0].network, func() (err error) {
		listener, err = net.Listen("tcp", "10.244.0.1:3306")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dial := func() error {
		return inNetwork(all[1].network, func() error {
			conn, err := net.DialTimeout("tcp", "10.244.0.1:3306", 3*time.Second)
			if err == nil {
				err = conn.Close()
			}
			return err
		})
	}
	if err := dial(); err != nil {
		t.Error(err)
	}
	if err := inNetwork(all[1].network, func() error { return ip("link", "set", "eth0", "down") }); err != nil {
		t.Fatal(err)
	}
	if dial() == nil {
		t.Error("a container that is cut off reaches another one")
	}
}
