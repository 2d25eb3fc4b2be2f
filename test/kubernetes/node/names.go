package node

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
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

// answer is the response to a query with one question; nil if it is none.
func (n *Node) answer(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Response, m.Authoritative, m.RecursionAvailable = true, true, true
	m.Additionals = nil // such as EDNS
	address := n.serviceAddress(strings.Split(strings.TrimSuffix(q.Name.String(), "."), "."))
	switch {
	case address == nil:
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 5},
			Body: &dnsmessage.AResource{A: [4]byte(address)}}}
	}
	answer, err := m.Pack()
	if err != nil {
		return nil
	}
	return answer
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
