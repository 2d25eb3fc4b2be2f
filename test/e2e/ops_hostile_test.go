package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

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

// TestHostileInput attacks one broker in every way at once, and asks meanwhile whether it serves others. First,
// connections alone are to be weighed; at the end, what all the rest has left behind.
func TestHostileInput(t *testing.T) {
	t.Parallel()
	h := hostile{startPlatform(t, servers.AllMySQL(t)[0], firstEnvironment(t))}
	h.testIdleConnections(t)
	before := h.memory(t)
	t.Run("attacks", func(t *testing.T) {
		t.Run("long bodies", h.testLongBodies)
		for _, attack := range []struct {
			name string
			run  func(*testing.T)
		}{
			{"contents", h.testContents}, {"ids", h.testIDs}, {"headers", h.testHeaders}, {"protocol", h.testProtocol},
			{"slow headers", h.testSlowHeaders}, {"slow body", h.testSlowBody}, {"slow reader", h.testSlowReader},
		} {
			t.Run(attack.name, func(t *testing.T) {
				t.Parallel()
				attack.run(t)
			})
		}
	})
	h.expectService(t)
	const most = 128 << 20
	after := h.memory(t)
	t.Logf("memory: %d MiB before the attacks, %d MiB after", before/mebibyte, after/mebibyte)
	if after-before > most {
		t.Errorf("the attacks left %d MiB of memory in use", (after-before)/mebibyte)
	}
}

// memory is what the broker's process has resident, in bytes.
func (h hostile) memory(t *testing.T) int {
	t.Helper()
	return h.figure(t, "process_resident_memory_bytes")
}

func (h hostile) figure(t *testing.T, series string) int {
	t.Helper()
	n, err := strconv.ParseFloat(scrape(t, h.platform)[series], 64)
	if err != nil {
		t.Fatalf("%s: %v", series, err)
	}
	return int(n)
}

// expectService fails the test unless the broker serves others as always.
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

// exchange sends bytes on a connection of their own and reads the first answer.
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

// expectSentence fails the test unless the answer has this status and a description.
func expectSentence(t *testing.T, want, status int, object map[string]any) {
	t.Helper()
	if description, _ := object["description"].(string); status != want || description == "" {
		t.Errorf("answer %d %.500v, want %d with a description", status, object, want)
	}
}

// Half of the connections have made a request, and half have not said a word.
func (h hostile) testIdleConnections(t *testing.T) {
	const connections = 1000
	const most = 512 << 10 // bytes each, nearly all for the race detector; without it, some 25 KiB are taken
	h.expectService(t)
	before := h.memory(t)
	var all []net.Conn
	for i := range connections {
		conn := h.dial(t)
		all = append(all, conn)
		if i%2 == 0 {
			setDeadline(t, conn, answerTime)
			send(t, conn, h.head("GET", "/v2/catalog", "\r\n"))
			if status, _ := receive(t, bufio.NewReader(conn)); status != http.StatusOK {
				t.Fatalf("connection %d: answer %d", i, status)
			}
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

func (h hostile) testLongBodies(t *testing.T) {
	i := h.newInstance(t, "shared-small")
	content := encode(t, i.provisionBody(nil))
	whole := func(length int) string { return content + strings.Repeat(" ", length-len(content)) }
	for _, c := range []struct{ name, more, body string }{
		{"with its length", fmt.Sprintf("Content-Length: %d\r\n\r\n", mebibyte+1), whole(mebibyte + 1)},
		{"in one chunk", "Transfer-Encoding: chunked\r\n\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", mebibyte+1,
			whole(mebibyte+1))},
		{"in many chunks", "Transfer-Encoding: chunked\r\n\r\n", strings.Repeat("400\r\n"+strings.Repeat(" ", 0x400)+
			"\r\n", 1025) + "0\r\n\r\n"},
		{"only announced", "Content-Length: 9223372036854775807\r\n\r\n", whole(mebibyte + 1)},
	} {
		status, object := h.exchange(t, h.head("PUT", i.path(), c.more)+c.body)
		if expectSentence(t, http.StatusRequestEntityTooLarge, status, object); t.Failed() {
			t.Fatal(c.name)
		}
	}
	expectEmpty(t, i.deprovision(t, now), http.StatusGone)
	i.Do(t, "PUT", i.path(), []byte(whole(mebibyte))).Expect(t, http.StatusCreated)
}

// testContents sends what a JSON body can hold. What is accepted must be kept, and all else be refused with a 400.
func (h hostile) testContents(t *testing.T) {
	keys := make([]string, 100_000)
	for i := range keys {
		keys[i] = fmt.Sprintf(`"%x":1`, i)
	}
	deep := strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000)
	deepArrays := `{"a":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + "}"
	for name, c := range map[string]struct {
		context, parameters, more string
		status                    int
	}{
		"deep context":              {context: deep, status: 400},
		"deep parameters":           {parameters: deep, status: 400},
		"deep arrays":               {context: deepArrays, status: 400},
		"never closed":              {context: strings.Repeat("[", 100_000), status: 400},
		"100,000 keys in context":   {context: "{" + strings.Join(keys, ",") + "}", status: 201},
		"100,000 parameters":        {parameters: "{" + strings.Join(keys, ",") + "}", status: 400},
		"100,000 fields":            {more: "," + strings.Join(keys, ","), status: 201},
		"one key of 900 KiB":        {parameters: `{"` + strings.Repeat("k", 900<<10) + `":1}`, status: 400},
		"huge number":               {context: `{"n":1e400000}`, status: 400},
		"huge negative exponent":    {context: `{"n":1e-400000}`, status: 400},
		"number of 900,000 digits":  {context: `{"n":` + strings.Repeat("9", 900_000) + `}`, status: 400},
		"huge number, a parameter":  {parameters: `{"charset":1e400000}`, status: 400},
		"large number":              {context: `{"n":-1.5e308}`, status: 201},
		"NUL in context":            {context: `{"a":"x\u0000y"}`, status: 400},
		"NUL in a name":             {context: `{"a\u0000":1}`, status: 400},
		"NUL in parameters":         {parameters: `{"charset":"\u0000"}`, status: 400},
		"NUL in a GUID":             {more: `,"space_guid":"\u0000"`, status: 400},
		"half a surrogate pair":     {context: `{"a":"\ud800"}`, status: 400},
		"half a pair in parameters": {parameters: `{"charset":"\udfff"}`, status: 400},
		"invalid UTF-8":             {context: "{\"a\":\"\xff\xfe\"}", status: 400},
		"overlong UTF-8":            {context: "{\"a\":\"\xc0\x80\"}", status: 400},
		"duplicate field":           {context: `{}`, more: `,"context":{}`, status: 400},
		"duplicate in context":      {context: `{"a":1,"a":"2"}`, status: 201},
		"duplicate parameter":       {parameters: `{"charset":"utf8mb4","charset":"latin1"}`, status: 400},
		"odd characters":            {context: `{"":"\u202e\ufeff\uffff\ud83d\udca9","\\u0000":"'\";--"}`, status: 201},
		"GUID of 900 KiB":           {more: `,"space_guid":"` + strings.Repeat("x", 900<<10) + `"`, status: 201},
		"plan of 900 KiB":           {more: `,"plan_id":"` + strings.Repeat("x", 900<<10) + `"`, status: 400},
		"JavaScript":                {context: `{a:1}`, status: 400},
		"not a number":              {context: `{"a":NaN}`, status: 400},
	} {
		t.Run(name, func(t *testing.T) {
			i := h.newInstance(t, "shared-small")
			body := fmt.Sprintf(`{"service_id":%q`, i.serviceID)
			if !strings.Contains(c.more, "plan_id") {
				body += fmt.Sprintf(`,"plan_id":%q`, i.planID)
			}
			if c.context != "" {
				body += `,"context":` + c.context
			}
			if c.parameters != "" {
				body += `,"parameters":` + c.parameters
			}
			r := i.Do(t, "PUT", i.path(), []byte(body+c.more+"}"))
			if c.status != http.StatusCreated {
				expectSentence(t, c.status, r.Status, r.Body)
				if len(r.Raw) > 2000 {
					t.Errorf("the refusal has %d bytes: %.500s …", len(r.Raw), r.Raw)
				}
				return
			}
			r.Expect(t, http.StatusCreated)
			i.fetch(t).Expect(t, http.StatusOK)
		})
	}
}

func (h hostile) testIDs(t *testing.T) {
	i := h.newInstance(t, "shared-small") // for its plan alone
	for id, status := range map[string]int{
		strings.Repeat("a", 257): 400, strings.Repeat("a", 60_000): 400, strings.Repeat("%61", 15_000): 400,
		"%00": 400, "a%00": 400, "%0d%0aX-Injected:%20yes": 400, "%1b%5b31m": 400, "%7f": 400, "%ff": 400, "%c0%ae": 400,
		"%ed%a0%80": 400, "%e2%80%ae": 400, "%e2%80%8b": 400, "%2e%2e": 400, "%2e": 400, "..": 404, ".": 404, "%zz": 400,
		"..%2f..%2f..%2fetc%2fpasswd": 201, "%2Fv2%2Fcatalog": 201, "'%3B%20DROP%20TABLE%20instance%3B--": 201,
		"%25": 201, "_": 201, "*": 201, "%F0%9F%92%A9": 201, "%EF%BD%81": 201, "A": 201, strings.Repeat("z", 256): 201,
	} {
		name := fmt.Sprintf("%.40s", id)
		t.Run(name, func(t *testing.T) {
			body := encode(t, i.provisionBody(nil))
			path := "/v2/service_instances/" + id
			status1, object := h.exchange(t, h.head("PUT", path, fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)))+body)
			if status != http.StatusCreated {
				// net/http refuses a path that is none by itself, in plain text.
				if id == "%zz" && status1 == 400 {
					return
				}
				expectSentence(t, status, status1, object)
				return
			}
			if status1 != http.StatusCreated {
				t.Errorf("answer %d %v, want 201", status1, object)
			}
			conn := h.dial(t)
			setDeadline(t, conn, answerTime)
			send(t, conn, h.head("DELETE", i.deletion(path, now), "\r\n"))
			if status, object := receive(t, bufio.NewReader(conn)); status != http.StatusOK {
				t.Errorf("delete it: answer %d %v", status, object)
			}
		})
	}
	for _, target := range []string{
		"/v2/service_instances/" + strings.Repeat("a", mebibyte),
		"/v2/service_instances/i/last_operation?operation=" + strings.Repeat("a", mebibyte),
	} {
		// net/http refuses it, in plain text.
		if status, _ := h.exchange(t, h.head("GET", target, "\r\n")); status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a target of 1 MiB: answer %d, want 431", status)
		}
	}
	for _, operation := range []string{
		"", "task_", "task_-1", "task_9223372036854775808", "%F0%9F%92%A9", strings.Repeat("task_1", 5000), "task_1'--",
	} {
		status, object := h.exchange(t, h.head("GET", i.path()+"/last_operation?operation="+operation, "\r\n"))
		if status != http.StatusBadRequest && status != http.StatusNotFound && status != http.StatusGone {
			t.Errorf("operation %.40s: answer %d %v", operation, status, object)
		}
	}
}

func (h hostile) testHeaders(t *testing.T) {
	var many strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&many, "a%d:b\r\n", i)
	}
	for name, c := range map[string]struct {
		more   string
		status int
	}{
		"1 MiB":                     {"X-Long: " + strings.Repeat("x", mebibyte) + "\r\n", 431},
		"1 MiB in 1,000":            {strings.Repeat("X-Long: "+strings.Repeat("x", 1024)+"\r\n", 1000), 431},
		"100,000":                   {strings.Repeat(many.String(), 20), 431},
		"5,000":                     {many.String(), 200},
		"identity without a value":  {"X-Broker-API-Originating-Identity: cloudfoundry\r\n", 200},
		"identity without platform": {"X-Broker-API-Originating-Identity: eyJ1c2VyX2lkIjoiNjgzZWE3NDgifQ==\r\n", 200},
		"identity that is no JSON":  {"X-Broker-API-Originating-Identity: cloudfoundry Z2FyYmFnZQ==\r\n", 200},
		"identity that is an array": {"X-Broker-API-Originating-Identity: cloudfoundry W10=\r\n", 200},
		"identity of 60 KiB":        {"X-Broker-API-Originating-Identity: " + strings.Repeat("A", 60<<10) + "\r\n", 200},
		"identity in invalid UTF-8": {"X-Broker-API-Originating-Identity: \xff\xfe \xff\r\n", 200},
		"request id of 60 KiB":      {"X-Broker-API-Request-Identity: " + strings.Repeat("A", 60<<10) + "\r\n", 200},
		"request id in Latin-1":     {"X-Broker-API-Request-Identity: \xe4\xf6\xfc\r\n", 200},
		"forwarded for nobody":      {"X-Forwarded-For: ,,,unknown,_hidden,[::1\r\n", 200},
		"two logins":                {"Authorization: Basic Og==\r\n", 200},
		"control character":         {"X-A: \x00\r\n", 400},
		"folded line":               {"X-A: b\r\n c\r\n", 200},
		"space before the colon":    {"X-A : b\r\n", 400},
		"no colon":                  {"X-A\r\n", 400},
		"lone LF":                   {"X-A: b\nX-B: c\r\n", 200},
		"lone CR":                   {"X-A: b\rX-B: c\r\n", 400},
		"expectation":               {"Expect: miracles\r\n", 417},
		"two hosts":                 {"Host: other\r\n", 400},
		"upgrade":                   {"Connection: Upgrade\r\nUpgrade: h2c\r\n", 200},
	} {
		t.Run(name, func(t *testing.T) {
			if status, object := h.exchange(t, h.head("GET", "/v2/catalog", c.more+"\r\n")); status != c.status {
				t.Errorf("answer %d %.200v, want %d", status, object, c.status)
			}
		})
	}
}

func (h hostile) testProtocol(t *testing.T) {
	get := h.head("GET", "/v2/catalog", "")
	path := "/v2/service_instances/" + uuid.NewString()
	for name, c := range map[string]struct {
		text     string
		statuses []int
	}{
		"HTTP/1.0":         {strings.Replace(get, "HTTP/1.1\r\nHost: broker", "HTTP/1.0", 1) + "\r\n", []int{200}},
		"HTTP/0.9":         {"GET /v2/catalog\r\n\r\n", []int{400}},
		"HTTP/2":           {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{401}},
		"HTTP/9.9":         {"GET / HTTP/9.9\r\n\r\n", []int{505}},
		"TLS":              {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", []int{400}},
		"another protocol": {"\x00\x01\x02\x03\r\n\r\n", []int{400}},
		"no host":          {"GET /v2/catalog HTTP/1.1\r\n\r\n", []int{400}},
		"an absolute URL":  {strings.Replace(get, "/v2", "http://elsewhere/v2", 1) + "\r\n", []int{200}},
		"a proxy's method": {"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: broker\r\n\r\n", []int{401}},
		"pipelined":        {strings.Repeat(get+"\r\n", 3), []int{200, 200, 200}},
		"negative length":  {h.head("PUT", path, "Content-Length: -1\r\n\r\n"), []int{400}},
		"two lengths":      {h.head("PUT", path, "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x"), []int{400}},
		"unknown encoding": {h.head("PUT", path, "Transfer-Encoding: gzip\r\n\r\n"), []int{501}},
		"hidden encoding":  {h.head("PUT", path, "Transfer-Encoding: \x0bchunked\r\n\r\n"), []int{400}},
		"malformed chunk":  {h.head("PUT", path, "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}"), []int{400}},
		"chunk too large": {h.head("PUT", path, "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}"),
			[]int{400}},
		// RFC 9112 section 6.1: the encoding wins. What follows its end is a request of its own, which is not logged in.
		"length and encoding": {h.head("PUT", path, "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n") +
			"GET /smuggled HTTP/1.1\r\nHost: broker\r\n\r\n", []int{400, 401}},
	} {
		t.Run(name, func(t *testing.T) {
			conn := h.dial(t)
			setDeadline(t, conn, answerTime)
			send(t, conn, c.text)
			answers := bufio.NewReader(conn)
			for i, want := range c.statuses {
				status, _ := receive(t, answers)
				if status != want {
					t.Errorf("answer %d is %d, want %d", i+1, status, want)
				}
			}
		})
	}
}

// A client that sends a byte of its headers now and then is cut off, and serves nobody else worse.
func (h hostile) testSlowHeaders(t *testing.T) {
	var all sync.WaitGroup
	for range 50 {
		conn := h.dial(t)
		all.Go(func() { h.expectCutOff(t, conn, h.head("GET", "/v2/catalog", ""), headerTimeout) })
	}
	h.expectService(t)
	all.Wait()
}

func (h hostile) testSlowBody(t *testing.T) {
	var all sync.WaitGroup
	for range 50 {
		conn := h.dial(t)
		all.Go(func() {
			h.expectCutOff(t, conn, h.head("PUT", "/v2/service_instances/slow", "Content-Length: 1000000\r\n\r\n"), bodyTimeout)
		})
	}
	h.expectService(t)
	all.Wait()
}

// expectCutOff sends text and then a byte a second for ever. The broker must have ended the connection after limit.
func (h hostile) expectCutOff(t *testing.T, conn net.Conn, text string, limit time.Duration) {
	began := time.Now()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Error(err)
		return
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, conn)
		ended <- err
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			took := time.Since(began)
			if err != nil && !cutOff(err) {
				t.Error(err)
			}
			if took < limit-time.Second || took > limit+answerTime {
				t.Errorf("cut off after %v instead of %v", took, limit)
			}
			return
		case <-tick.C:
			if _, err := io.WriteString(conn, "x"); err != nil && !cutOff(err) {
				t.Error(err)
				return
			}
		case <-time.After(2 * limit):
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
