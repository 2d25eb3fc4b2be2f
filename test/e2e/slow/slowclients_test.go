package slow

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
	h := testdrive.Hostile{Platform: testdrive.StartPlatform(t, servers.Any(t), testdrive.AnyEnvironment(t))}
	testIdleConnections(t, h)
	before := memory(t, h)
	t.Run("attacks", func(t *testing.T) {
		t.Run("long bodies", func(t *testing.T) { testLongBodies(t, h) })
		for _, attack := range []struct {
			name string
			run  func(*testing.T, testdrive.Hostile)
		}{
			{"slow headers", testSlowHeaders}, {"slow body", testSlowBody}, {"slow reader", testSlowReader},
		} {
			t.Run(attack.name, func(t *testing.T) {
				t.Parallel()
				attack.run(t, h)
			})
		}
	})
	h.ExpectService(t)
	const most = 128 << 20
	const collection = 2 * time.Minute // after so long Go collects garbage though nothing is asked for
	testdrive.Eventually(t, collection+3*time.Minute, "the memory that the attacks used is given back", func() bool {
		after := memory(t, h)
		t.Logf("memory: %d MiB before the attacks, %d MiB now", before/testdrive.Mebibyte, after/testdrive.Mebibyte)
		return after-before <= most
	})
}

// Each of the connections has made a request; those that never make one are closed like slow ones.
func testIdleConnections(t *testing.T, h testdrive.Hostile) {
	const connections = 1000
	const most = 512 << 10 // bytes each, nearly all for the race detector; without it, some 30 KiB are taken
	h.ExpectService(t)
	before := memory(t, h)
	all := make([]net.Conn, connections)
	const dialers = 20 // one alone may take so long on a busy machine that the broker closes the first connections
	var dialled sync.WaitGroup
	for first := range dialers {
		dialled.Go(func() {
			for n := first; n < connections; n += dialers {
				var err error
				if all[n], err = dialIdle(t, h); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	if dialled.Wait(); t.Failed() {
		return
	}
	h.ExpectService(t)
	grown, open := memory(t, h)-before, figure(t, h, "process_open_fds")
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
func dialIdle(t *testing.T, h testdrive.Hostile) (net.Conn, error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.URL, "http://"))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, h.Head("GET", "/v2/catalog", "\r\n")); err != nil {
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
func testSlowHeaders(t *testing.T, h testdrive.Hostile) {
	var all sync.WaitGroup
	for range 50 {
		began, conn := time.Now(), h.Dial(t)
		all.Go(func() {
			expectCutOff(t, h, conn, began, h.Head("GET", "/v2/catalog", ""), testdrive.HeaderTimeout, "HTTP/1.1 400 ")
		})
	}
	h.ExpectService(t)
	all.Wait()
}

func testSlowBody(t *testing.T, h testdrive.Hostile) {
	var all sync.WaitGroup
	for range 50 {
		began, conn := time.Now(), h.Dial(t)
		all.Go(func() {
			expectCutOff(t, h, conn, began, h.Head("PUT", "/v2/service_instances/slow", "Content-Length: 1000000\r\n\r\n"),
				testdrive.BodyTimeout, "HTTP/1.1 408 ")
		})
	}
	h.ExpectService(t)
	all.Wait()
}

// expectCutOff sends text and then a byte a second for ever. The broker must end the connection, which was made
// after began, after limit, with a response that begins so.
func expectCutOff(t *testing.T, h testdrive.Hostile, conn net.Conn, began time.Time, text string, limit time.Duration,
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
	tooLate := time.After(limit + testdrive.AnswerTime)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil && !testdrive.CutOff(err) {
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
			if _, err := io.WriteString(conn, "x"); err != nil && !testdrive.CutOff(err) {
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
func testSlowReader(t *testing.T, h testdrive.Hostile) {
	const each = 100_000
	requests := strings.Repeat(h.Head("GET", "/v2/catalog", "\r\n"), each)
	var all sync.WaitGroup
	for range 10 {
		conn := h.Dial(t)
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
	h.ExpectService(t)
	all.Wait()
	h.ExpectService(t)
}

func testLongBodies(t *testing.T, h testdrive.Hostile) {
	i := h.NewInstance(t, "shared-small")
	content := testdrive.Encode(t, i.ProvisionBody(nil))
	whole := func(length int) string { return content + strings.Repeat(" ", length-len(content)) }
	for _, c := range []struct{ name, more, body string }{
		{"with its length", fmt.Sprintf("Content-Length: %d\r\n\r\n", testdrive.Mebibyte+1), whole(testdrive.Mebibyte + 1)},
		{"in one chunk", "Transfer-Encoding: chunked\r\n\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", testdrive.Mebibyte+1,
			whole(testdrive.Mebibyte+1))},
		{"in many chunks", "Transfer-Encoding: chunked\r\n\r\n", strings.Repeat("400\r\n"+strings.Repeat(" ", 0x400)+
			"\r\n", 1025) + "0\r\n\r\n"},
		{"only announced", "Content-Length: 9223372036854775807\r\n\r\n", whole(testdrive.Mebibyte + 1)},
	} {
		status, object := h.Exchange(t, h.Head("PUT", i.Path(), c.more)+c.body)
		if testdrive.ExpectSentence(t, http.StatusRequestEntityTooLarge, status, object); t.Failed() {
			t.Fatal(c.name)
		}
	}
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusGone)
	i.Do(t, "PUT", i.Path(), []byte(whole(testdrive.Mebibyte))).Expect(t, http.StatusCreated)
}

// memory is what the broker's process has resident, in bytes.
func memory(t *testing.T, h testdrive.Hostile) int {
	t.Helper()
	return figure(t, h, "process_resident_memory_bytes")
}

func figure(t *testing.T, h testdrive.Hostile, series string) int {
	t.Helper()
	return h.Scrape(t).Int(t, series)
}
