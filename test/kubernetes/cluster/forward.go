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

// forwarder leads from the node port of a Service to the pod that the Service selects. It listens only while the pod
// runs: a node refuses connections to a Service without one.
type forwarder struct {
	node     *Node
	service  service
	listener net.Listener // nil while it does not listen
}

// forward notes a Service that was changed.
func (n *Node) forward(_ context.Context, what string, s service) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.ports[s.Metadata.UID]
	switch {
	case what == "DELETED":
		if f != nil {
			f.close()
			delete(n.ports, s.Metadata.UID)
		}
	case f == nil && len(s.Spec.Ports) > 0 && s.Spec.Ports[0].NodePort != 0:
		f = &forwarder{node: n, service: s}
		n.ports[s.Metadata.UID] = f
		f.follow()
	case f != nil:
		f.service = s // which may select another pod
		f.follow()
	}
}

// reroute is called when the container of a pod has started or ended.
func (n *Node) reroute() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.ports {
		f.follow()
	}
}

// follow listens if there is a pod, and else does not. The node is locked.
func (f *forwarder) follow() {
	there := f.node.selected(f.service.Metadata.Namespace, f.service.Spec.Selector) != nil
	if there == (f.listener != nil) {
		return
	}
	if !there || f.node.c.background.Err() != nil {
		f.close()
		return
	}
	at := net.JoinHostPort(f.node.cfg.Address, strconv.Itoa(f.service.Spec.Ports[0].NodePort))
	listener, err := net.Listen("tcp", at)
	if err != nil {
		f.node.c.cfg.Logf("node port of %s: %v", f.service.Metadata.Name, err)
		return
	}
	f.listener = listener
	go f.run(listener)
}

func (f *forwarder) close() {
	if f.listener != nil {
		_ = f.listener.Close()
		f.listener = nil
	}
}

func (f *forwarder) run(listener net.Listener) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		go f.lead(from)
	}
}

// lead copies both ways until both ends are closed. Where no pod listens, the connection is closed at once.
func (f *forwarder) lead(from net.Conn) {
	defer from.Close()
	f.node.mu.Lock()
	p := f.node.selected(f.service.Metadata.Namespace, f.service.Spec.Selector)
	f.node.mu.Unlock()
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
