package node

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"net"
	"net/http"
	"strings"
)

// serveNames answers pods what addresses Services have: SERVICE.NAMESPACE.svc.cluster.local. Pods try the shorter names
// with their search list.
func (n *Node) serveNames(context.Context) error {
	conn, err := net.ListenPacket("udp", Address+":53")
	if err != nil {
		return err
	}
	go func() { // until the process ends
		buffer := make([]byte, 512)
		for {
			size, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			query := append([]byte{}, buffer[:size]...)
			go func() {
				if answer := n.answer(query); answer != nil {
					_, _ = conn.WriteTo(answer, from) // who asks repeats what gets lost
				}
			}()
		}
	}()
	return nil
}

// Parts of a message, https://www.rfc-editor.org/rfc/rfc1035#section-4.1.
const (
	headerSize = 12
	typeA      = 1
	response   = 1<<15 | 1<<10 | 1<<7 // that is authoritative, and of a server that recurses
	noName     = 3
)

// answer is the response to a query with one question; nil if it is none.
func (n *Node) answer(query []byte) []byte {
	if len(query) < headerSize || binary.BigEndian.Uint16(query[4:]) != 1 {
		return nil
	}
	var labels []string
	at := headerSize
	for at < len(query) && query[at] != 0 {
		end := at + 1 + int(query[at])
		if end >= len(query) {
			return nil
		}
		labels = append(labels, string(query[at+1:end]))
		at = end
	}
	end := at + 5
	if end > len(query) {
		return nil
	}
	address := n.serviceAddress(labels)
	flags, answers := uint16(response), uint16(0)
	if address == nil {
		flags |= noName
	}
	message := append([]byte{}, query[:end]...)
	if address != nil && binary.BigEndian.Uint16(query[at+1:]) == typeA {
		answers = 1
		message = append(message, 0xc0, headerSize, 0, typeA, 0, 1, 0, 0, 0, 5, 0, 4) // the name again; five seconds
		message = append(message, address...)
	}
	binary.BigEndian.PutUint16(message[2:], flags)
	binary.BigEndian.PutUint16(message[6:], answers)
	binary.BigEndian.PutUint32(message[8:], 0) // no other records, such as EDNS
	return message
}

// serviceAddress is that of the Service with this name; nil if there is none.
func (n *Node) serviceAddress(labels []string) net.IP {
	if len(labels) != 5 || strings.Join(labels[2:], ".") != "svc.cluster.local" {
		return nil
	}
	var service struct{ Spec struct{ ClusterIP string } }
	status, answer, err := n.Call(context.Background(), http.MethodGet,
		"/api/v1/namespaces/"+labels[1]+"/services/"+labels[0], nil)
	if err != nil || status != http.StatusOK || json.Unmarshal(answer, &service) != nil {
		return nil
	}
	return net.ParseIP(service.Spec.ClusterIP).To4()
}
