package testdrive

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Proxy is a network that fails at will: a TCP relay to put between a broker and PostgreSQL or MySQL. What passes
// through it is opaque, and may be TLS. Its methods may be called from any goroutine.
type Proxy struct {
	listener net.Listener
	served   sync.WaitGroup

	mu      sync.Mutex
	target  string
	open    []*relay
	frozen  chan struct{} // not nil while connections are frozen; closed by Release
	refuses bool
	hideTLS bool
	trap    *trap // nil: none
}

// relay is one connection and its other half.
type relay struct {
	client, server net.Conn
	greeted        bool          // guarded by Proxy.mu; the server has sent something
	gate           chan struct{} // guarded by Proxy.mu; bytes read wait until it is closed; nil: it does not wait
	lost           *trap         // guarded by Proxy.mu; not nil if the next response will be lost
	closed         chan struct{}
	close          func()
}

// trap is a pending call of CutAnswer or HoldRequest.
type trap struct {
	text  []byte
	holds bool
	done  chan struct{}
}

// Parameter returns a text as PostgreSQL's protocol sends a statement's parameter, its length and then the text, for
// CutAnswer.
// https://www.postgresql.org/docs/current/protocol-message-formats.html
func Parameter(text string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
}

// NewProxy relays connections to target (host:port) until the test ends.
func NewProxy(t testing.TB, target string) *Proxy { return NewProxyAt(t, "127.0.0.1:0", target) }

// NewProxyAt is NewProxy with the proxy at an address (host:port).
func NewProxyAt(t testing.TB, address, target string) *Proxy {
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	p := &Proxy{listener: l, target: target}
	p.served.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.Refuse(true) // those that are being made
		p.Cut()
		p.served.Wait()
	})
	return p
}

// Addr is where clients connect (host:port).
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// To relays new connections to another target, and cuts those to the one before.
func (p *Proxy) To(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.Cut()
}

// ProxyURL puts a proxy before the server that a URL names, and returns the URL that leads through it.
func ProxyURL(t testing.TB, direct string) (p *Proxy, through string) {
	t.Helper()
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal("the server's URL is malformed") // err would show its password
	}
	p = NewProxy(t, u.Host)
	u.Host = p.Addr()
	return p, u.String()
}

// Freeze stops forwarding on the connections that are open now, in both directions; they stay open. Later connections
// work.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
	for _, r := range p.open {
		r.gate = p.frozen
	}
}

// Release forwards what Freeze has held back, and continues.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

// Cut closes all connections that are open now, including frozen ones, and ends a pending call of CutAnswer or
// HoldRequest.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = nil
	for _, r := range p.open {
		r.close()
	}
}

// Refuse makes the proxy close new connections as soon as they are made, or accept them again.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = on
}

// CutAnswer waits for bytes from a client that hold text, forwards them, and resets the connection instead of passing
// on the server's response: the server has executed the request, and the client cannot know. An empty text matches any
// bytes. The channel is closed when the connection has been reset, which happens once.
func (p *Proxy) CutAnswer(text string) (done <-chan struct{}) { return p.set(text, false) }

// HoldRequest holds back the next bytes from a client that hold text, until their connection ends. The channel is closed
// when they are there.
func (p *Proxy) HoldRequest(text string) (reached <-chan struct{}) { return p.set(text, true) }

// set sets a trap in the place of the one before.
func (p *Proxy) set(text string, holds bool) (done <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = &trap{text: []byte(text), holds: holds, done: make(chan struct{})}
	return p.trap.done
}

// HideTLS removes the offer of TLS from a MySQL server's greetings, so that clients connect without TLS.
func (p *Proxy) HideTLS() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hideTLS = true
}

// WithoutTLS removes the offer of TLS from a MySQL server's greeting.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_v10.html
func WithoutTLS(greeting []byte) {
	const header, clientSSL = 4, 0x0800
	version := bytes.IndexByte(greeting[header+1:], 0)
	if version < 0 {
		return
	}
	capabilities := header + 1 + version + 1 + 4 + 8 + 1 // behind the thread's id, a part of the salt and a filler
	if len(greeting) > capabilities+1 {
		greeting[capabilities+1] &^= clientSSL >> 8
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // the test has ended
		}
		p.served.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return // the client sees it as a connection that ends, like that of a server that is down
	}
	r := &relay{client: client, server: server, closed: make(chan struct{})}
	r.close = sync.OnceFunc(func() {
		close(r.closed)
		client.Close()
		server.Close()
	})
	defer r.close()
	p.mu.Lock()
	refuses := p.refuses
	if !refuses {
		p.open = append(p.open, r)
	}
	p.mu.Unlock()
	if refuses {
		return
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open = slices.DeleteFunc(p.open, func(o *relay) bool { return o == r })
	}()
	var directions sync.WaitGroup
	directions.Go(func() { p.pass(r, client, server, p.beforeServer) })
	directions.Go(func() { p.pass(r, server, client, p.beforeClient) })
	directions.Wait()
}

// pass carries bytes one way until either end closes. When the connection is not frozen, it calls before with them,
// which returns whether to forward them.
func (p *Proxy) pass(r *relay, from, to net.Conn, before func(*relay, []byte) bool) {
	defer r.close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil || !p.await(r) || !before(r, buffer[:n]) {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// await returns when the connection is not frozen, and false if it was closed meanwhile.
func (p *Proxy) await(r *relay) bool {
	p.mu.Lock()
	gate := r.gate
	p.mu.Unlock()
	if gate == nil {
		return true
	}
	select {
	case <-gate:
		return true
	case <-r.closed:
		return false
	}
}

func (p *Proxy) beforeServer(r *relay, sent []byte) bool {
	t := p.caught(sent)
	if t != nil && t.holds {
		close(t.done)
		<-r.closed
		return false
	}
	if t != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		r.lost = t
	}
	return true
}

// caught is the trap that is to catch these bytes, which has caught them then.
func (p *Proxy) caught(sent []byte) (t *trap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trap != nil && bytes.Contains(sent, p.trap.text) {
		t, p.trap = p.trap, nil
	}
	return t
}

func (p *Proxy) beforeClient(r *relay, sent []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hideTLS && !r.greeted {
		WithoutTLS(sent)
	}
	r.greeted = true
	if r.lost == nil {
		return true
	}
	close(r.lost.done) // first, so that whoever sees the connection break finds it closed
	r.lost = nil
	_ = r.client.(*net.TCPConn).SetLinger(0) // without it, the client would read an end instead of a reset
	r.close()
	return false
}
