//go:build faults

package stage

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// cutter is between a broker and the rest of the world: its connections, its launcher and its object store. It cuts them
// off for ever, or holds them up for a while.
type cutter struct {
	mu    sync.Mutex
	off   bool
	ice   chan struct{} // closed when the broker thaws; nil if it is not frozen
	conns map[*cutConn]bool
}

var errCut = errors.New("the stage has killed this broker")

// pass returns when the broker is not frozen, with an error if it was killed.
func (c *cutter) pass() error {
	for {
		c.mu.Lock()
		off, ice := c.off, c.ice
		c.mu.Unlock()
		switch {
		case off:
			return errCut
		case ice == nil:
			return nil
		}
		<-ice
	}
}

// Dial is a mysqladmin.Dialer, and a pgconn.DialFunc.
func (c *cutter) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := c.pass(); err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	through := &cutConn{Conn: conn, cutter: c}
	if c.off {
		through.reset()
		return nil, errCut
	}
	if c.conns == nil {
		c.conns = map[*cutConn]bool{}
	}
	c.conns[through] = true
	return through, nil
}

// cut resets all connections, and refuses everything from now on.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = true
	for conn := range c.conns {
		conn.reset()
	}
	c.conns = nil
	c.melt()
}

// freeze holds up everything until thaw is called. What the broker sends meanwhile arrives then, whatever it thinks of it
// by that time.
func (c *cutter) freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ice = make(chan struct{})
}

func (c *cutter) thaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.melt()
}

// melt is called with the lock held.
func (c *cutter) melt() {
	if c.ice != nil {
		close(c.ice)
		c.ice = nil
	}
}

// cutConn is a connection of a broker.
type cutConn struct {
	net.Conn
	cutter  *cutter
	sending sync.Mutex // held while something is being sent
}

// reset closes the connection as the kernel closes that of a killed process which has not read everything.
func (c *cutConn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // else it is closed in the common way
	}
	_ = c.Conn.Close()
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if cut := c.cutter.pass(); cut != nil {
		return 0, cut
	}
	return n, err
}

func (c *cutConn) Write(p []byte) (int, error) {
	c.sending.Lock()
	defer c.sending.Unlock()
	if err := c.cutter.pass(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// SyscallConn lets the driver look whether a server has ended the connection, before it uses it again.
func (c *cutConn) SyscallConn() (syscall.RawConn, error) {
	conn, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return conn.SyscallConn()
}

// settle has what was sent before a thaw arrive first.
func (c *cutConn) settle() {
	c.cutter.mu.Lock()
	frozen := c.cutter.ice != nil
	c.cutter.mu.Unlock()
	if frozen {
		_ = c.cutter.pass() // then the connection is closed
		c.sending.Lock()
		defer c.sending.Unlock()
	}
}

func (c *cutConn) SetDeadline(end time.Time) error {
	c.settle()
	return c.Conn.SetDeadline(end)
}

func (c *cutConn) SetReadDeadline(end time.Time) error {
	c.settle()
	return c.Conn.SetReadDeadline(end)
}

func (c *cutConn) SetWriteDeadline(end time.Time) error {
	c.settle()
	return c.Conn.SetWriteDeadline(end)
}

func (c *cutConn) Close() error {
	c.settle()
	c.cutter.mu.Lock()
	delete(c.cutter.conns, c)
	c.cutter.mu.Unlock()
	return c.Conn.Close()
}
