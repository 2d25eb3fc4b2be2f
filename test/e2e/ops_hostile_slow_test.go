package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestSlowClients keeps a broker busy with clients that are idle, slow, or send too much, and checks that it still serves
// others. First, it measures the memory of connections alone; at the end, that of everything.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	h := hostile{startPlatform(t, servers.Any(t), firstEnvironment(t))}
	testIdleConnections(t, h)
	before := h.memory(t)
	t.Run("attacks", func(t *testing.T) {
		t.Run("long bodies", func(t *testing.T) { testLongBodies(t, h) })
		for _, attack := range []struct {
			name string
			run  func(*testing.T, hostile)
		}{
			{"slow headers", testSlowHeaders}, {"slow body", testSlowBody}, {"slow reader", testSlowReader},
		} {
			t.Run(attack.name, func(t *testing.T) {
				t.Parallel()
				attack.run(t, h)
			})
		}
	})
	h.expectService(t)
	const most = 128 << 20
	const collection = 2 * time.Minute // after so long Go collects garbage though nothing is asked for
	testdrive.Eventually(t, collection+3*time.Minute, "the memory that the attacks used is given back", func() bool {
		after := h.memory(t)
		t.Logf("memory: %d MiB before the attacks, %d MiB now", before/mebibyte, after/mebibyte)
		return after-before <= most
	})
}

// Each of the connections has made a request; those that never make one are closed like slow ones.
func testIdleConnections(t *testing.T, h hostile) {
	const connections = 1000
	const most = 512 << 10 // bytes each, nearly all for the race detector; without it, some 30 KiB are taken
	h.expectService(t)
	before := h.memory(t)
	all := make([]net.Conn, connections)
	const dialers = 20 // one alone may take so long on a busy machine that the broker closes the first connections
	var dialled sync.WaitGroup
	for first := range dialers {
		dialled.Go(func() {
			for n := first; n < connections; n += dialers {
				var err error
				if all[n], err = h.dialIdle(t); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	if dialled.Wait(); t.Failed() {
		return
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

// dialIdle connects until the test ends, and makes one request.
func (h hostile) dialIdle(t *testing.T) (net.Conn, error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.URL, "http://"))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, h.head("GET", "/v2/catalog", "\r\n")); err != nil {
		return nil, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answer %d", answer.StatusCode)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return conn, err
}

// A client that sends its headers byte by byte is disconnected, and does not slow down others.
func testSlowHeaders(t *testing.T, h hostile) {
	var all sync.WaitGroup
	for range 50 {
		began, conn := time.Now(), h.dial(t)
		all.Go(func() {
			h.expectCutOff(t, conn, began, h.head("GET", "/v2/catalog", ""), headerTimeout, "HTTP/1.1 400 ")
		})
	}
	h.expectService(t)
	all.Wait()
}

func testSlowBody(t *testing.T, h hostile) {
	var all sync.WaitGroup
	for range 50 {
		began, conn := time.Now(), h.dial(t)
		all.Go(func() {
			h.expectCutOff(t, conn, began, h.head("PUT", "/v2/service_instances/slow", "Content-Length: 1000000\r\n\r\n"),
				bodyTimeout, "HTTP/1.1 408 ")
		})
	}
	h.expectService(t)
	all.Wait()
}

// expectCutOff sends text and then a byte a second for ever. The broker must end the connection, which was made
// after began, after limit, with a response that begins so.
func (h hostile) expectCutOff(t *testing.T, conn net.Conn, began time.Time, text string, limit time.Duration,
	answer string) {
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

// A client that sends many requests and reads no response makes the broker buffer at most one response.
func testSlowReader(t *testing.T, h hostile) {
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
