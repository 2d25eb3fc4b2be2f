package httpapi

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies says whose X-Forwarded-For to trust. The zero value trusts nobody's, because anyone can send that header.
type Proxies struct {
	// Nearest is true if every connection comes from a proxy, such as Cloud Foundry's router.
	Nearest bool
	// Trusted are the networks of proxies, including those behind the nearest one.
	Trusted []netip.Prefix
}

// source is the address from which a request comes: the other end of the TCP connection or, if that is a trusted proxy,
// the address that it appended to X-Forwarded-For, and so on. The client can invent entries to the left of those. An
// IPv6 address counts as its /64, the smallest network of a customer (RFC 6177). The result is invalid if the
// connection has no IP address. disbelieved reports that the source has sent X-Forwarded-For: it may be a proxy that
// the operator should trust.
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

// forwarded parses an entry; some proxies include the port.
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

// plain returns an IPv4 address for a mapped one, without a zone.
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
