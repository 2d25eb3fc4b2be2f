package node

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"strings"
)

func words(text []byte) []string { return strings.Fields(string(text)) }

// serveNames answers pods what addresses Services have: SERVICE.NAMESPACE.svc.cluster.local; and those pods that a
// headless Service gives names: POD.SERVICE.NAMESPACE.svc.cluster.local. Pods try the shorter names with their search
// list.
func (n *Nodes) serveNames(context.Context) error {
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
func (n *Nodes) answer(query []byte) []byte {
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
	address := n.address(labels)
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

// address is that of the Service or pod with this name; nil if there is none.
func (n *Nodes) address(labels []string) net.IP {
	at := len(labels) - 3
	if at < 2 || at > 3 || strings.Join(labels[at:], ".") != "svc.cluster.local" {
		return nil
	}
	if at == 3 {
		return n.podAddress(labels[0], labels[1], labels[2])
	}
	var service struct{ Spec struct{ ClusterIP string } }
	if !n.read("/api/v1/namespaces/"+labels[1]+"/services/"+labels[0], &service) {
		return nil
	}
	return net.ParseIP(service.Spec.ClusterIP).To4()
}

func (n *Nodes) podAddress(pod, service, namespace string) net.IP {
	var slices struct {
		Items []struct {
			Endpoints []struct {
				Hostname  string
				Addresses []string
			}
		}
	}
	n.read("/apis/discovery.k8s.io/v1/namespaces/"+namespace+"/endpointslices?labelSelector="+
		url.QueryEscape("kubernetes.io/service-name="+service), &slices)
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			if endpoint.Hostname == pod && len(endpoint.Addresses) > 0 {
				return net.ParseIP(endpoint.Addresses[0]).To4()
			}
		}
	}
	return nil
}

// read reports whether an object could be read.
func (n *Nodes) read(path string, into any) bool {
	status, answer, err := n.Call(context.Background(), http.MethodGet, path, nil)
	return err == nil && status == http.StatusOK && json.Unmarshal(answer, into) == nil
}
