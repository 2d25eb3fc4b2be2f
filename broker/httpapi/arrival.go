package httpapi

import (
	"context"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

type connKey struct{}

// WithConn is for the ConnContext of the http.Server. It lets Client.Received be the time at which the machine received
// a request.
func WithConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// arrival returns the time at which the request of ctx arrived, at the latest before its body was read. If the kernel
// knows, this is when the machine received the request's last bytes, or up to two ticks of the kernel's clock later. A
// paused or busy broker may have read the request much later. If a client sends more after the request, before the
// response, that later time counts. https://man7.org/linux/man-pages/man7/tcp.7.html, TCP_INFO
func arrival(ctx context.Context) time.Time {
	since := callFrom(ctx).since
	conn, _ := ctx.Value(connKey{}).(net.Conn)
	for { // unwrap the kernel's connection
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
		// The kernel counts whole ticks, and may count one too many. A request must never seem older than it is.
		age := time.Duration(info.Last_data_recv)*time.Millisecond - kernelTick
		if arrived := now.Add(-age); arrived.Before(since) {
			since = arrived
		}
	})
	return since
}

// kernelTick is the longest tick of Linux: CONFIG_HZ is at least 100.
const kernelTick = 10 * time.Millisecond
