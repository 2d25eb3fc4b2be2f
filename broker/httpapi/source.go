package httpapi

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies says whose X-Forwarded-For is believed. The zero value believes nobody's: a header that anyone can send must
// not let anyone choose where he comes from.
type Proxies struct {
	// Nearest is set where every connection comes from a proxy, as from Cloud Foundry's router.
	Nearest bool
	// Trusted are the proxies' networks, of those behind the nearest one too.
	Trusted []netip.Prefix
}

// source is where a request comes from: the address of the TCP connection's other end or, where that is a trusted
// proxy, the one that it appended to X-Forwarded-For, and so on. Entries left of those are the client's invention.
// An IPv6 address stands for its /64, which is the least that a customer gets (RFC 6177). It is invalid if the
// connection has no IP address. disbelieved tells that the source sent an X-Forwarded-For of its own: it may be a
// proxy that should be trusted and is not.
func (p Proxies) source(r *http.Request) (_ netip.Addr, disbelieved bool) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, false
	}
	source := plain(peer.Addr())
	entries, believed := strings.Join(r.Header.Values("X-Forwarded-For"), ","), p.Nearest
	for more := true; more; {
		comma := strings.LastIndexByte(entries, ',')
		entry := entries[comma+1:]
		if !believed && !p.trusts(source) {
			return network(source), strings.TrimSpace(entry) != ""
		}
		client, ok := forwarded(entry)
		if !ok {
			break
		}
		source, believed = client, false
		entries, more = entries[:max(comma, 0)], comma >= 0
	}
	return network(source), false
}

func (p Proxies) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(p.Trusted, func(n netip.Prefix) bool { return n.Contains(a) })
}

// forwarded reads an entry, which some proxies write with the port.
func forwarded(entry string) (netip.Addr, bool) {
	entry = strings.TrimSpace(entry)
	if a, err := netip.ParseAddr(entry); err == nil {
		return plain(a), true
	}
	if a, err := netip.ParseAddrPort(entry); err == nil {
		return plain(a.Addr()), true
	}
	return netip.Addr{}, false
}

// plain is the address as an IPv4 one where it is one, without a zone.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

func network(a netip.Addr) netip.Addr {
	if a.Is4() {
		return a
	}
	n, err := a.Prefix(64)
	if err != nil {
		return a // it is invalid
	}
	return n.Addr()
}
