package network

import (
	"bytes"
	"net/netip"
	"slices"
)

// progress is what a host has received on a connection.
type progress struct {
	next   uint32 // the sequence number that it expects
	doomed *trap  // whose text it was sent: its next data is lost, and the connection is reset
}

// trap is a pending call of ResetAfter.
type trap struct {
	from, to *Host
	text     []byte
	sprung   chan struct{}
}

// Reset resets all connections between two hosts, at both ends, as firewalls do that forget them.
func (n *Network) Reset(a, b *Host) {
	n.mu.Lock()
	var resets [][]byte
	for f := range n.flows {
		if f.from.Addr() == a.Addr && f.to.Addr() == b.Addr || f.from.Addr() == b.Addr && f.to.Addr() == a.Addr {
			resets = append(resets, n.reset(f)...)
		}
	}
	n.mu.Unlock()
	n.send(resets)
}

// ResetAfter waits for a segment from one host to another that holds text, and passes it on. The response is lost, and
// the connection is reset instead, at both ends: the request was received, and the client cannot know. It happens once;
// then the channel is closed. forget ends the wait.
func (n *Network) ResetAfter(from, to *Host, text string) (sprung <-chan struct{}, forget func()) {
	t := &trap{from: from, to: to, text: []byte(text), sprung: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.traps = append(n.traps, t)
	return t.sprung, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.forget(t)
	}
}

// forget needs the lock.
func (n *Network) forget(t *trap) {
	n.traps = slices.DeleteFunc(n.traps, func(other *trap) bool { return other == t })
}

// watch looks at a segment that would pass, and returns what is sent instead: nil if it passes. It needs the lock.
func (n *Network) watch(s segment) (resets [][]byte) {
	if s.flags&(flagReset|flagSyn) != 0 {
		delete(n.flows, s.flow)
	}
	if s.flags&flagAck != 0 && s.flags&flagReset == 0 {
		own := n.flows[s.flow]
		if own == nil {
			own = &progress{}
			n.flows[s.flow] = own
		}
		own.next = s.ack
		if own.doomed != nil && len(s.data) > 0 {
			close(own.doomed.sprung)
			own.doomed = nil
			return n.reset(s.flow)
		}
	}
	n.catch(s)
	return nil
}

// catch springs a trap: the other end's next data is lost.
func (n *Network) catch(s segment) {
	other := n.flows[s.flow.back()]
	i := slices.IndexFunc(n.traps, func(t *trap) bool {
		return t.from.Addr == s.flow.from.Addr() && t.to.Addr == s.flow.to.Addr() && bytes.Contains(s.data, t.text)
	})
	if i >= 0 && other != nil && other.doomed == nil && len(s.data) > 0 {
		other.doomed = n.traps[i]
		n.forget(n.traps[i])
	}
}

// reset returns what resets a connection at both ends. A host accepts a reset only with the sequence number that it
// expects. https://www.rfc-editor.org/rfc/rfc5961#section-3.2
func (n *Network) reset(f flow) (resets [][]byte) {
	for _, f := range []flow{f, f.back()} {
		if p := n.flows[f]; p != nil {
			resets = append(resets, resetTo(f, p.next))
			delete(n.flows, f)
		}
	}
	return resets
}

// flow is one direction of a connection.
type flow struct{ from, to netip.AddrPort }

func (f flow) back() flow { return flow{f.to, f.from} }
