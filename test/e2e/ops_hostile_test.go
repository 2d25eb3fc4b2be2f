package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"mysql-broker/test/servers"
)

const (
	mebibyte      = 1 << 20
	answerTime    = 20 * time.Second // for one answer, on a busy machine
	headerTimeout = 10 * time.Second // as cmd/mysql-broker/app sets them
	bodyTimeout   = 30 * time.Second
)

// hostile is a broker under attack.
type hostile struct{ platform }

// TestHostileInput attacks a broker in many ways at once, and checks that it still serves others.
func TestHostileInput(t *testing.T) {
	t.Parallel()
	h := hostile{startPlatform(t, servers.Any(t), firstEnvironment(t))}
	t.Run("attacks", func(t *testing.T) {
		for _, attack := range []struct {
			name string
			run  func(*testing.T, hostile)
		}{
			{"contents", testContents}, {"targets", testTargets}, {"headers", testHeaders}, {"protocol", testProtocol},
		} {
			t.Run(attack.name, func(t *testing.T) {
				t.Parallel()
				attack.run(t, h)
			})
		}
	})
	h.expectService(t)
}

// memory is what the broker's process has resident, in bytes.
func (h hostile) memory(t *testing.T) int {
	t.Helper()
	return h.figure(t, "process_resident_memory_bytes")
}

func (h hostile) figure(t *testing.T, series string) int {
	t.Helper()
	return h.Scrape(t).Int(t, series)
}

// expectService checks that the broker serves others as usual.
func (h hostile) expectService(t *testing.T) {
	t.Helper()
	began := time.Now()
	h.Do(t, "GET", "/v2/catalog", nil).Expect(t, http.StatusOK)
	if took := time.Since(began); took > answerTime {
		t.Errorf("the catalog took %v", took)
	}
}

// dial connects until the test ends.
func (h hostile) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// head is the beginning of a request as a platform sends it, without the empty line at its end.
func (h hostile) head(method, target, more string) string {
	q := http.Request{Header: http.Header{}}
	q.SetBasicAuth(h.Username, h.Password)
	return method + " " + target + " HTTP/1.1\r\nHost: broker\r\nX-Broker-API-Version: 2.17\r\nAuthorization: " +
		q.Header.Get("Authorization") + "\r\n" + more
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	// The broker may refuse, and close, before all is sent.
	if _, err := io.WriteString(conn, text); err != nil && !cutOff(err) {
		t.Fatal(err)
	}
}

func cutOff(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF)
}

// receive reads one answer. Its object is nil if its body is not one.
func receive(t *testing.T, r *bufio.Reader) (status int, object map[string]any) {
	t.Helper()
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if json.Unmarshal(body, &object) != nil {
		object = nil
	}
	return answer.StatusCode, object
}

// exchange sends bytes on a connection of their own and reads the first response.
func (h hostile) exchange(t *testing.T, text string) (status int, object map[string]any) {
	t.Helper()
	conn := h.dial(t)
	setDeadline(t, conn, answerTime)
	go io.WriteString(conn, text) // an early answer ends it with the connection
	return receive(t, bufio.NewReader(conn))
}

func setDeadline(t *testing.T, conn net.Conn, limit time.Duration) {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
}

// expectSentence fails the test unless the response has this status and a description.
func expectSentence(t *testing.T, want, status int, object map[string]any) {
	t.Helper()
	if description, _ := object["description"].(string); status != want || description == "" {
		t.Errorf("answer %d %.500v, want %d with a description", status, object, want)
	}
}
