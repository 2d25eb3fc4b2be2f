package app

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
)

// Clients that send or read slowly are disconnected, however steadily they do so.
func TestSlowClientsAreDisconnected(t *testing.T) {
	t.Parallel()
	page := make([]byte, 64<<10)
	server := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(page)
	}), slog.New(slog.DiscardHandler))
	if server.ReadHeaderTimeout != 10*time.Second || server.ReadTimeout != 30*time.Second { // docs/configuration.md
		t.Errorf("headers may take %v, and requests %v", server.ReadHeaderTimeout, server.ReadTimeout)
	}
	server.ReadHeaderTimeout, server.ReadTimeout, server.WriteTimeout = 100*time.Millisecond, 200*time.Millisecond, time.Second
	address := listen(t, server)
	const get = "GET / HTTP/1.1\r\nHost: broker\r\n"
	for name, text := range map[string]string{
		"slow headers":     get + "X-Slow: ",
		"a slow body":      "PUT / HTTP/1.1\r\nHost: broker\r\nContent-Length: 1000000\r\n\r\n",
		"no reader at all": strings.Repeat(get+"\r\n", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, address)
			_, err := io.WriteString(conn, text)
			for err == nil {
				time.Sleep(20 * time.Millisecond)
				_, err = io.WriteString(conn, "x")
			}
			timeout, ok := err.(net.Error)
			assert.False(t, ok && timeout.Timeout(), "it is still connected")
		})
	}
}

// listen has a server run until the test ends, and returns its address.
func listen(t *testing.T, server *http.Server) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	return listener.Addr().String()
}

// dial connects to a server until the test ends.
func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(limits.Stuck)))
	return conn
}
