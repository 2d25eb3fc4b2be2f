package tenants

import (
	"bufio"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mysql-broker/test/testdrive"
)

func testHeaders(t *testing.T, h testdrive.Hostile) {
	var many strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&many, "a%d:b\r\n", i)
	}
	for name, c := range map[string]struct {
		more   string
		status int
	}{
		"1 MiB":                     {"X-Long: " + strings.Repeat("x", testdrive.Mebibyte) + "\r\n", 431},
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
			status, object := h.Exchange(t, h.Head("GET", "/v2/catalog", c.more+"\r\n"))
			if c.status >= 400 {
				testdrive.ExpectSentence(t, c.status, status, object)
			} else if status != c.status {
				t.Errorf("answer %d %.200v, want %d", status, object, c.status)
			}
		})
	}
}

func testProtocol(t *testing.T, h testdrive.Hostile) {
	get := h.Head("GET", "/v2/catalog", "")
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
		"negative length":  {h.Head("PUT", path, "Content-Length: -1\r\n\r\n"), []int{400}},
		"two lengths":      {h.Head("PUT", path, "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x"), []int{400}},
		"unknown encoding": {h.Head("PUT", path, "Transfer-Encoding: gzip\r\n\r\n"), []int{501}},
		"hidden encoding":  {h.Head("PUT", path, "Transfer-Encoding: \x0bchunked\r\n\r\n"), []int{400}},
		"malformed chunk":  {h.Head("PUT", path, "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}"), []int{400}},
		"chunk too large": {h.Head("PUT", path, "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}"),
			[]int{400}},
		// RFC 9112 section 6.1: the encoding wins. What follows its end is a request of its own, which is not logged in.
		"length and encoding": {h.Head("PUT", path, "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n") +
			"GET /smuggled HTTP/1.1\r\nHost: broker\r\n\r\n", []int{400, 401}},
	} {
		t.Run(name, func(t *testing.T) {
			conn := h.Dial(t)
			testdrive.SetDeadline(t, conn, testdrive.AnswerTime)
			send(t, conn, c.text)
			answers := bufio.NewReader(conn)
			for i, want := range c.statuses {
				status, object := testdrive.ReceiveAnswer(t, answers)
				if status != want {
					t.Errorf("answer %d is %d, want %d", i+1, status, want)
				}
				if want >= 400 {
					testdrive.ExpectSentence(t, want, status, object)
				}
			}
		})
	}
}
