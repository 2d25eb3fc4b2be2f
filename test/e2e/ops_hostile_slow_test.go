package e2e

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// Each of the connections has made a request; those that never do are cut off as slow ones are.
func (h hostile) testIdleConnections(t *testing.T) {
	const connections = 1000
	const most = 512 << 10 // bytes each, nearly all for the race detector; without it, some 30 KiB are taken
	h.expectService(t)
	before := h.memory(t)
	var all []net.Conn
	for range connections {
		conn := h.dial(t)
		all = append(all, conn)
		setDeadline(t, conn, answerTime)
		send(t, conn, h.head("GET", "/v2/catalog", "\r\n"))
		if status, object := receive(t, bufio.NewReader(conn)); status != http.StatusOK {
			t.Fatalf("answer %d %v", status, object)
		}
	}
	h.expectService(t)
	grown, open := h.memory(t)-before, h.figure(t, "process_open_fds")
	t.Logf("%d idle connections: %d bytes each, %d files open", connections, grown/connections, open)
	if open < connections {
		t.Errorf("%d connections, but %d open files: they were not idle ones", connections, open)
	}
	if grown > connections*most {
		t.Errorf("%d connections take %d bytes each", connections, grown/connections)
	}
	for _, conn := range all {
		conn.Close()
	}
}

// A client that sends a byte of its headers now and then is cut off, and serves nobody else worse.
func (h hostile) testSlowHeaders(t *testing.T) {
	var all sync.WaitGroup
	for range 50 {
		conn := h.dial(t)
		all.Go(func() { h.expectCutOff(t, conn, h.head("GET", "/v2/catalog", ""), headerTimeout, "HTTP/1.1 400 ") })
	}
	h.expectService(t)
	all.Wait()
}

func (h hostile) testSlowBody(t *testing.T) {
	var all sync.WaitGroup
	for range 50 {
		conn := h.dial(t)
		all.Go(func() {
			h.expectCutOff(t, conn, h.head("PUT", "/v2/service_instances/slow", "Content-Length: 1000000\r\n\r\n"),
				bodyTimeout, "HTTP/1.1 408 ")
		})
	}
	h.expectService(t)
	all.Wait()
}

// expectCutOff sends text and then a byte a second for ever. The broker must end the connection after limit, with an
// answer that begins so.
func (h hostile) expectCutOff(t *testing.T, conn net.Conn, text string, limit time.Duration, answer string) {
	began := time.Now()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Error(err)
		return
	}
	var got strings.Builder
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(&got, conn)
		ended <- err
	}()
	tooLate := time.After(limit + answerTime)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil && !cutOff(err) {
				t.Error(err)
			}
			if took := time.Since(began); took < limit-time.Second {
				t.Errorf("cut off after %v already, instead of %v", took, limit)
			}
			if !strings.HasPrefix(got.String(), answer) {
				t.Errorf("cut off with %q instead of %q", &got, answer)
			}
			return
		case <-tick.C:
			if _, err := io.WriteString(conn, "x"); err != nil && !cutOff(err) {
				t.Error(err)
				return
			}
		case <-tooLate:
			t.Errorf("not cut off after %v", time.Since(began))
			return
		}
	}
}

// A client that asks and asks, and reads no answer, holds no more than one answer in the broker.
func (h hostile) testSlowReader(t *testing.T) {
	const each = 100_000
	requests := strings.Repeat(h.head("GET", "/v2/catalog", "\r\n"), each)
	var all sync.WaitGroup
	for range 10 {
		conn := h.dial(t)
		all.Go(func() {
			defer conn.Close()
			if err := conn.SetWriteDeadline(time.Now().Add(2 * time.Second)); err != nil {
				t.Error(err)
			}
			_, err := io.WriteString(conn, requests)
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%d requests without a reader were all taken: %v", each, err)
			}
		})
	}
	h.expectService(t)
	all.Wait()
	h.expectService(t)
}
