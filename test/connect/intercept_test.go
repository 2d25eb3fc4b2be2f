package connect

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/test/testdrive"
)

// attack is what somebody on the way to the server does.
type attack string

const (
	ownCertificate attack = "ends TLS himself, with a certificate of his own"
	anotherServer  attack = "leads to a server that is certified by the right CA, for another name"
	noTLS          attack = "hides that the server offers TLS"
	// The last one is no attack: it is the server's way to an IPv6 address.
	knownCA attack = "ends TLS at an IPv6 address, with a certificate by a CA that the application knows"
)

// interceptor stands between a client and a MySQL server, and remembers what it gets to read of the client's.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase.html
type interceptor struct {
	target string
	attack attack
	own    tls.Certificate
	ca     string // that signed own
	Addr   *net.TCPAddr

	mu        sync.Mutex
	heard     bytes.Buffer // all that a client sent, but for its request for TLS
	contacted bool
}

// intercept attacks connections to a server until the test ends.
func intercept(t *testing.T, target string, a attack) *interceptor {
	listen := "127.0.0.1:0"
	switch a {
	case anotherServer:
		listen = "127.0.0.2:0" // which is in no certificate
	case knownCA:
		listen = "[::1]:0"
	}
	l, err := net.Listen("tcp", listen)
	require.NoError(t, err)
	ca, key, leaf := testdrive.NewKeyPair(t, "127.0.0.1", "localhost", "::1") // for the right names
	own, err := tls.X509KeyPair(leaf, key)
	require.NoError(t, err)
	i := &interceptor{target: target, attack: a, own: own, ca: ca, Addr: l.Addr().(*net.TCPAddr)}
	var served sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		served.Wait()
	})
	served.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // the test has ended
			}
			served.Go(func() { i.serve(client) })
		}
	})
	return i
}

// Heard is all that clients let the interceptor read.
func (i *interceptor) Heard() (heard []byte, contacted bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return bytes.Clone(i.heard.Bytes()), i.contacted
}

func (i *interceptor) hear(sent []byte) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.heard.Write(sent)
}

// Write lets an interceptor be copied to.
func (i *interceptor) Write(sent []byte) (int, error) {
	i.hear(sent)
	return len(sent), nil
}

func (i *interceptor) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", i.target)
	if err != nil {
		return
	}
	defer server.Close()
	i.mu.Lock()
	i.contacted = true
	i.mu.Unlock()
	if i.attack == anotherServer {
		join(client, server, io.Discard) // what passes is opaque
		return
	}
	greeting, err := readPacket(server)
	if err != nil {
		return
	}
	if i.attack == noTLS {
		testdrive.WithoutTLS(greeting)
	}
	if _, err := client.Write(greeting); err != nil {
		return
	}
	first, err := readPacket(client)
	if err != nil {
		return
	}
	const header, request = 4, 32 // the length of a client's request for TLS
	if len(first) != header+request {
		i.hear(first)
		if _, err := server.Write(first); err == nil {
			join(client, server, i)
		}
		return
	}
	if _, err := server.Write(first); err != nil {
		return
	}
	inward := tls.Server(client, &tls.Config{Certificates: []tls.Certificate{i.own}})
	outward := tls.Client(server, &tls.Config{InsecureSkipVerify: true})
	if inward.Handshake() == nil && outward.Handshake() == nil {
		join(inward, outward, i)
	}
}

// join carries bytes between both until either closes.
func join(client, server net.Conn, heard io.Writer) {
	var back sync.WaitGroup
	back.Go(func() {
		io.Copy(client, server)
		client.Close()
	})
	io.Copy(server, io.TeeReader(client, heard))
	server.Close()
	back.Wait()
}

func readPacket(from io.Reader) ([]byte, error) {
	packet := make([]byte, 4)
	if _, err := io.ReadFull(from, packet); err != nil {
		return nil, err
	}
	length := int(binary.LittleEndian.Uint32(packet) & 0xffffff)
	packet = append(packet, make([]byte, length)...)
	_, err := io.ReadFull(from, packet[4:])
	return packet, err
}
