package network

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
)

// Positions and values in headers. https://www.rfc-editor.org/rfc/rfc791 and https://www.rfc-editor.org/rfc/rfc9293
const (
	ipHeader  = 20 // without options
	tcpHeader = 20
	tcp       = 6 // the protocol's number

	flagSyn   = 0x02
	flagReset = 0x04
	flagAck   = 0x10
)

// addresses returns those of a packet, which are not ok if it is not one of IPv4.
func addresses(packet []byte) (from, to netip.Addr, ok bool) {
	if len(packet) < ipHeader || packet[0]>>4 != 4 {
		return from, to, false
	}
	return netip.AddrFrom4([4]byte(packet[12:16])), netip.AddrFrom4([4]byte(packet[16:20])), true
}

// segment is what a packet of TCP says.
type segment struct {
	flow  flow
	ack   uint32
	flags byte
	data  []byte
}

func parse(packet []byte) (s segment, ok bool) {
	from, to, ok := addresses(packet)
	if !ok || packet[9] != tcp {
		return s, false
	}
	start := int(packet[0]&0x0f) * 4
	if len(packet) < start+tcpHeader {
		return s, false
	}
	header := packet[start:]
	s.flow = flow{netip.AddrPortFrom(from, binary.BigEndian.Uint16(header)),
		netip.AddrPortFrom(to, binary.BigEndian.Uint16(header[2:]))}
	s.ack, s.flags = binary.BigEndian.Uint32(header[8:]), header[13]
	data := int(header[12]>>4) * 4
	if len(header) < data {
		return s, false
	}
	s.data = header[data:]
	return s, true
}

// resetTo returns a packet that resets a connection at the end that sends f, and expects next.
func resetTo(f flow, next uint32) []byte {
	p := make([]byte, ipHeader+tcpHeader)
	p[0] = 4<<4 | ipHeader/4
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	p[8], p[9] = 64, tcp // time to live
	from, to := f.to.Addr().As4(), f.from.Addr().As4()
	copy(p[12:], from[:])
	copy(p[16:], to[:])
	binary.BigEndian.PutUint16(p[10:], checksum(p[:ipHeader], 0))
	t := p[ipHeader:]
	binary.BigEndian.PutUint16(t, f.to.Port())
	binary.BigEndian.PutUint16(t[2:], f.from.Port())
	binary.BigEndian.PutUint32(t[4:], next)
	t[12], t[13] = tcpHeader/4<<4, flagReset
	pseudo := uint32(tcp) + tcpHeader
	for _, address := range [][4]byte{from, to} {
		pseudo += uint32(binary.BigEndian.Uint16(address[:])) + uint32(binary.BigEndian.Uint16(address[2:]))
	}
	binary.BigEndian.PutUint16(t[16:], checksum(t, pseudo))
	return p
}

// checksum is that of the internet, of an even number of bytes. https://www.rfc-editor.org/rfc/rfc1071
func checksum(header []byte, sum uint32) uint16 {
	for i := 0; i < len(header); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

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
