package app

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"mysql-broker/broker"
	"mysql-broker/broker/catalog"
	"mysql-broker/broker/httpapi"
	"mysql-broker/test/testdrive"
)

// hostileInput is what clients send, with the statuses of the responses. {get} and {put} stand for a request for the
// catalog and one to provision, without the empty line after their headers, and {login} for the headers of both.
var hostileInput = map[string]struct {
	text     string
	statuses []int
}{
	"header of 1 MiB":           {"{get}X-Long: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", []int{431}},
	"headers of 1 MiB":          {"{get}" + strings.Repeat("X-Long: "+strings.Repeat("x", 1024)+"\r\n", 1000) + "\r\n", []int{431}},
	"100,000 headers":           {"{get}" + strings.Repeat("a:b\r\n", 100_000) + "\r\n", []int{431}},
	"5,000 headers":             {"{get}" + numbered(5000) + "\r\n", []int{200}},
	"identity without a value":  {"{get}X-Broker-API-Originating-Identity: cloudfoundry\r\n\r\n", []int{200}},
	"identity without platform": {"{get}X-Broker-API-Originating-Identity: eyJ1c2VyX2lkIjoiNjgzZWE3NDgifQ==\r\n\r\n", []int{200}},
	"identity that is no JSON":  {"{get}X-Broker-API-Originating-Identity: cloudfoundry Z2FyYmFnZQ==\r\n\r\n", []int{200}},
	"identity that is an array": {"{get}X-Broker-API-Originating-Identity: cloudfoundry W10=\r\n\r\n", []int{200}},
	"identity of 60 KiB":        {"{get}X-Broker-API-Originating-Identity: " + strings.Repeat("A", 60<<10) + "\r\n\r\n", []int{200}},
	"identity in invalid UTF-8": {"{get}X-Broker-API-Originating-Identity: \xff\xfe \xff\r\n\r\n", []int{200}},
	"request id of 60 KiB":      {"{get}X-Broker-API-Request-Identity: " + strings.Repeat("A", 60<<10) + "\r\n\r\n", []int{200}},
	"request id in Latin-1":     {"{get}X-Broker-API-Request-Identity: \xe4\xf6\xfc\r\n\r\n", []int{200}},
	"forwarded for nobody":      {"{get}X-Forwarded-For: ,,,unknown,_hidden,[::1\r\n\r\n", []int{200}},
	"two logins":                {"{get}Authorization: Basic Og==\r\n\r\n", []int{200}},
	"control character":         {"{get}X-A: \x00\r\n\r\n", []int{400}},
	"folded line":               {"{get}X-A: b\r\n c\r\n\r\n", []int{200}},
	"space before the colon":    {"{get}X-A : b\r\n\r\n", []int{400}},
	"no colon":                  {"{get}X-A\r\n\r\n", []int{400}},
	"lone LF":                   {"{get}X-A: b\nX-B: c\r\n\r\n", []int{200}},
	"lone CR":                   {"{get}X-A: b\rX-B: c\r\n\r\n", []int{400}},
	"expectation":               {"{get}Expect: miracles\r\n\r\n", []int{417}},
	"two hosts":                 {"{get}Host: other\r\n\r\n", []int{400}},
	"upgrade":                   {"{get}Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", []int{200}},
	"HTTP/1.0":                  {"GET /v2/catalog HTTP/1.0\r\n{login}\r\n", []int{200}},
	"HTTP/0.9":                  {"GET /v2/catalog\r\n\r\n", []int{400}},
	"HTTP/2":                    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{401}},
	"HTTP/9.9":                  {"GET / HTTP/9.9\r\n\r\n", []int{505}},
	"TLS":                       {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", []int{400}},
	"another protocol":          {"\x00\x01\x02\x03\r\n\r\n", []int{400}},
	"no host":                   {"GET /v2/catalog HTTP/1.1\r\n\r\n", []int{400}},
	"an absolute URL":           {"GET http://elsewhere/v2/catalog HTTP/1.1\r\nHost: broker\r\n{login}\r\n", []int{200}},
	"a proxy's method":          {"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: broker\r\n\r\n", []int{401}},
	"pipelined":                 {strings.Repeat("{get}\r\n", 3), []int{200, 200, 200}},
	"negative length":           {"{put}Content-Length: -1\r\n\r\n", []int{400}},
	"two lengths":               {"{put}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x", []int{400}},
	"unknown encoding":          {"{put}Transfer-Encoding: gzip\r\n\r\n", []int{501}},
	"hidden encoding":           {"{put}Transfer-Encoding: \x0bchunked\r\n\r\n", []int{400}},
	"malformed chunk":           {"{put}Transfer-Encoding: chunked\r\n\r\nzz\r\n{}", []int{400}},
	"chunk too large":           {"{put}Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}", []int{400}},
	// RFC 9112 section 6.1: the encoding wins. What follows its end is a request of its own, which is not logged in.
	"length and encoding": {"{put}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
		"GET /smuggled HTTP/1.1\r\nHost: broker\r\n\r\n", []int{400, 401}},
}

// numbered returns n headers.
func numbered(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "a%d:b\r\n", i)
	}
	return all.String()
}

// Every client gets a response, and one with a sentence if it is refused.
func TestHostileInput(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	all, err := catalog.Load(filepath.Join(testdrive.Root(), "catalog.yml"))
	require.NoError(t, err)
	login := httpapi.Credential{Username: "broker", Password: "a-password-of-the-test"}
	api, err := httpapi.New(broker.New(all, nil, nil, false), httpapi.Config{Logger: log,
		Registerer: prometheus.NewRegistry(), Credentials: []httpapi.Credential{login}})
	require.NoError(t, err)
	address := listen(t, newServer(api, log))
	fields := "X-Broker-API-Version: 2.17\r\nAuthorization: Basic " +
		base64.StdEncoding.EncodeToString([]byte(login.Username+":"+login.Password)) + "\r\n"
	const host = " HTTP/1.1\r\nHost: broker\r\n"
	heads := strings.NewReplacer("{login}", fields, "{get}", "GET /v2/catalog"+host+fields,
		"{put}", "PUT /v2/service_instances/i"+host+fields)
	for name, input := range hostileInput {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, address)
			go func() { // an early response ends it with the connection
				if _, err := io.WriteString(conn, heads.Replace(input.text)); err != nil && !disconnected(err) {
					t.Error(err)
				}
			}()
			responses := bufio.NewReader(conn)
			for n, want := range input.statuses {
				r, err := http.ReadResponse(responses, nil)
				require.NoError(t, err)
				body, err := io.ReadAll(r.Body)
				if err != nil || r.StatusCode != want || want >= 400 && sentence(r, body) == "" {
					t.Errorf("response %d is %d, %.500s, %v; want %d", n+1, r.StatusCode, body, err, want)
				}
			}
		})
	}
}

// sentence is what a refusal says. What net/http refuses itself is in plain text.
func sentence(r *http.Response, body []byte) string {
	if r.Header.Get("Content-Type") != "application/json" {
		return r.Status + string(body) // one to an expectation has no more than the status
	}
	var told struct{ Description string }
	if err := json.Unmarshal(body, &told); err != nil {
		return ""
	}
	return told.Description
}

func disconnected(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}
