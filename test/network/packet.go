package network

import (
	"encoding/binary"
	"net/netip"
)

// Lengths and values in headers. https://www.rfc-editor.org/rfc/rfc791 and https://www.rfc-editor.org/rfc/rfc9293
const (
	ipHeader = 20 // without options
	tcp      = 6  // the protocol's number
)

// addresses returns those of a packet, which are not ok if it is not one of IPv4.
func addresses(packet []byte) (from, to netip.Addr, ok bool) {
	if len(packet) < ipHeader || packet[0]>>4 != 4 {
		return from, to, false
	}
	return netip.AddrFrom4([4]byte(packet[12:16])), netip.AddrFrom4([4]byte(packet[16:20])), true
}

// ports returns those of a packet of IPv4, at either end, or none if it is not one of TCP.
func ports(packet []byte) []uint16 {
	start := int(packet[0]&0x0f) * 4
	if packet[9] != tcp || len(packet) < start+4 {
		return nil
	}
	return []uint16{binary.BigEndian.Uint16(packet[start:]), binary.BigEndian.Uint16(packet[start+2:])}
}
