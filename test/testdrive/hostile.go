package testdrive

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

	"mysql-broker/test/limits"
)

const (
	Mebibyte   = 1 << 20
	AnswerTime = 20 * time.Second // for one answer, on a busy machine
)

// Hostile is a broker under attack.
type Hostile struct{ Platform }

// ExpectService checks that the broker serves others as usual.
func (h Hostile) ExpectService(t *testing.T) {
	t.Helper()
	since := limits.Watch()
	h.Do(t, "GET", "/v2/catalog", nil).Expect(t, http.StatusOK)
	since.Done(t, "the catalog", AnswerTime)
}

// Dial connects until the test ends.
func (h Hostile) Dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Head is the beginning of a request as a platform sends it, without the empty line at its end.
func (h Hostile) Head(method, target, more string) string {
	q := http.Request{Header: http.Header{}}
	q.SetBasicAuth(h.Username, h.Password)
	return method + " " + target + " HTTP/1.1\r\nHost: broker\r\nX-Broker-API-Version: 2.17\r\nAuthorization: " +
		q.Header.Get("Authorization") + "\r\n" + more
}

func CutOff(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF)
}

// ReceiveAnswer reads one answer. Its object is nil if its body is not one.
func ReceiveAnswer(t *testing.T, r *bufio.Reader) (status int, object map[string]any) {
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

// Exchange sends bytes on a connection of their own and reads the first response.
func (h Hostile) Exchange(t *testing.T, text string) (status int, object map[string]any) {
	t.Helper()
	conn := h.Dial(t)
	SetDeadline(t, conn, AnswerTime)
	go io.WriteString(conn, text) // an early answer ends it with the connection
	return ReceiveAnswer(t, bufio.NewReader(conn))
}

func SetDeadline(t *testing.T, conn net.Conn, limit time.Duration) {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
}

// ExpectSentence fails the test unless the response has this status and a description.
func ExpectSentence(t *testing.T, want, status int, object map[string]any) {
	t.Helper()
	if description, _ := object["description"].(string); status != want || description == "" {
		t.Errorf("answer %d %.500v, want %d with a description", status, object, want)
	}
}

// Receive returns the next value of a channel, or the zero value if it is closed. It fails the test if nothing arrives;
// what says what was expected.
func Receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(limits.Stuck):
		t.Fatalf("%s: not within %v", what, limits.Stuck)
		panic("not reached")
	}
}
