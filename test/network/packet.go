package network

import (
	"encoding/binary"
	"net/netip"
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
