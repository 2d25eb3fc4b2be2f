package httpapi

import (
	"context"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

type connKey struct{}

// WithConn is for the ConnContext of the http.Server, so that Client.Received is when a request came to the machine.
func WithConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// arrival tells when the request that ctx belongs to came in, before its body was read at the latest. Where the kernel
// says so, it is when the machine got the last of it, or up to two ticks of the kernel's clock later: a broker that
// stood still, or had much to do, may have read it long after. What a client has sent behind the request, before it was
// answered, hides that.
// https://man7.org/linux/man-pages/man7/tcp.7.html, TCP_INFO
func arrival(ctx context.Context) time.Time {
	since := callFrom(ctx).since
	conn, _ := ctx.Value(connKey{}).(net.Conn)
	for { // what is wrapped around the kernel's connection
		inner, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = inner.NetConn()
	}
	raw, ok := conn.(syscall.Conn)
	if !ok {
		return since
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return since // the connection has ended
	}
	_ = control.Control(func(fd uintptr) {
		now := time.Now()
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO)
		if err != nil {
			return
		}
		// The kernel counts in whole ticks, and may count one too many: nothing is to seem older than it is.
		age := time.Duration(info.Last_data_recv)*time.Millisecond - kernelTick
		if arrived := now.Add(-age); arrived.Before(since) {
			since = arrived
		}
	})
	return since
}

// kernelTick is the longest that Linux is built with: CONFIG_HZ is 100 at least.
const kernelTick = 10 * time.Millisecond
