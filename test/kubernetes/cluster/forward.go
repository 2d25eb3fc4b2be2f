package cluster

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

type service struct {
	Metadata metadata
	Spec     struct {
		Selector map[string]string
		Ports    []struct{ NodePort int }
	}
}

// forwarder listens at the node port of a Service and leads to the pod that the Service selects.
type forwarder struct {
	node     *Node
	service  service
	listener net.Listener
}

// forward starts, changes or stops the forwarder of a Service that was changed.
func (n *Node) forward(_ context.Context, what string, s service) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.ports[s.Metadata.UID]
	if what == "DELETED" {
		if f != nil {
			f.close()
			delete(n.ports, s.Metadata.UID)
		}
		return
	}
	if f != nil || len(s.Spec.Ports) == 0 || s.Spec.Ports[0].NodePort == 0 {
		return
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(n.cfg.Address, strconv.Itoa(s.Spec.Ports[0].NodePort)))
	if err != nil {
		n.c.cfg.Logf("node port of %s: %v", s.Metadata.Name, err)
		return
	}
	f = &forwarder{node: n, service: s, listener: listener}
	n.ports[s.Metadata.UID] = f
	go f.run()
}

func (f *forwarder) close() { _ = f.listener.Close() }

func (f *forwarder) run() {
	for {
		from, err := f.listener.Accept()
		if err != nil {
			return
		}
		go f.lead(from)
	}
}

// lead copies both ways until both ends are closed. Where no pod listens, the connection is closed at once.
func (f *forwarder) lead(from net.Conn) {
	defer from.Close()
	p := f.node.selected(f.service.Metadata.Namespace, f.service.Spec.Selector)
	if p == nil {
		return
	}
	p.mu.Lock()
	c := p.main
	p.mu.Unlock()
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	to, err := c.dial(ctx, mysqlPort)
	cancel()
	if err != nil {
		return
	}
	defer to.Close()
	var copying sync.WaitGroup
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		copying.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // one end is closed
			_ = way[0].Close()
			_ = way[1].Close()
		})
	}
	copying.Wait()
}
