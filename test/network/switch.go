package network

import (
	"net/netip"
	"slices"
)

// way is a direction between two hosts.
type way struct{ from, to netip.Addr }

// Cut loses everything between a host and the others, in both directions. Without others, these are all hosts but the
// one outside.
func (n *Network) Cut(h *Host, others ...*Host) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, other := range n.hosts {
		if other == h || len(others) > 0 && !slices.Contains(others, other) || len(others) == 0 && other == n.Outside {
			continue
		}
		n.lost[way{h.Addr, other.Addr}], n.lost[way{other.Addr, h.Addr}] = true, true
	}
}

// Heal lets every packet pass again.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.lost)
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

// ipHeader is the length of a header of IPv4 without options. https://www.rfc-editor.org/rfc/rfc791
const ipHeader = 20

// route passes a packet of IPv4 on, or not.
func (n *Network) route(packet []byte) {
	if len(packet) < ipHeader || packet[0]>>4 != 4 {
		return
	}
	from, to := netip.AddrFrom4([4]byte(packet[12:16])), netip.AddrFrom4([4]byte(packet[16:20]))
	n.mu.Lock()
	lost := n.lost[way{from, to}]
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
