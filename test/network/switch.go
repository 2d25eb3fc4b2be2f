package network

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// Rule is what happens to packets in one direction between two hosts.
type Rule struct {
	Loss  float64       // the fraction of packets that are lost
	Delay time.Duration // of those that are not
}

// Lost loses every packet.
var Lost = Rule{Loss: 1}

// way is a direction between two hosts: all packets, or those of connections with a port at either end.
type way struct {
	from, to netip.Addr
	port     uint16 // 0: all
}

// link is what has a rule.
type link struct {
	Rule
	late chan late // packets in the order in which they came; nil if the rule has no delay
}

type late struct {
	packet []byte
	due    time.Time
}

// lateLimit is how many packets may be delayed in one direction. Others are lost, as in a real queue.
const lateLimit = 4096

// Set makes a rule for what from sends to to, from now on. The zero Rule removes it.
func (n *Network) Set(from, to *Host, r Rule) { n.SetPort(from, to, 0, r) }

// SetPort is Set for connections with that port at either end, where Set has made no rule for all.
func (n *Network) SetPort(from, to *Host, port int, r Rule) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.set(way{from.Addr, to.Addr, uint16(port)}, r)
}

// set needs the lock. Packets that are delayed arrive nevertheless.
func (n *Network) set(w way, r Rule) {
	if old := n.rules[w]; old != nil && old.late != nil {
		close(old.late)
	}
	delete(n.rules, w)
	if r == (Rule{}) {
		return
	}
	l := &link{Rule: r}
	if r.Delay > 0 {
		l.late = make(chan late, lateLimit)
		go n.deliver(w.to, l.late)
	}
	n.rules[w] = l
}

func (n *Network) deliver(to netip.Addr, all <-chan late) {
	for l := range all {
		time.Sleep(time.Until(l.due))
		n.write(to, l.packet)
	}
}

// Cut loses everything between a host and the others, in both directions. Without others, these are all hosts but the
// one outside.
func (n *Network) Cut(h *Host, others ...*Host) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, other := range n.hosts {
		if other == h || len(others) > 0 && !slices.Contains(others, other) || len(others) == 0 && other == n.Outside {
			continue
		}
		n.set(way{h.Addr, other.Addr, 0}, Lost)
		n.set(way{other.Addr, h.Addr, 0}, Lost)
	}
}

// Heal removes all rules.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.rules {
		n.set(w, Rule{})
	}
}

// pass carries what a host sends until the test ends.
func (n *Network) pass(h *Host) {
	buffer := make([]byte, mtu)
	for {
		size, err := h.device.Read(buffer)
		if err != nil {
			return // the device was closed
		}
		n.route(buffer[:size])
	}
}

// route passes a packet on, or not.
func (n *Network) route(packet []byte) {
	from, to, ok := addresses(packet)
	if !ok {
		return
	}
	n.mu.Lock()
	rule := n.rules[way{from, to, 0}]
	for _, port := range ports(packet) {
		if rule == nil {
			rule = n.rules[way{from, to, port}]
		}
	}
	lost := rule != nil && rand.Float64() < rule.Loss
	if !lost && rule != nil && rule.late != nil {
		select {
		case rule.late <- late{slices.Clone(packet), time.Now().Add(rule.Delay)}:
		default:
		}
		lost = true // now
	}
	n.mu.Unlock()
	if !lost {
		n.write(to, packet)
	}
}

// write hands a packet to a host. Like a real network, it may lose it, if the host takes no more.
func (n *Network) write(to netip.Addr, packet []byte) {
	if h := n.hosts[to]; h != nil { // nobody changes hosts once packets pass
		_, _ = h.device.Write(packet)
	}
}
