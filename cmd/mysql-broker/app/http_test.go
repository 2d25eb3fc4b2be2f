package app

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/broker"
	"mysql-broker/broker/catalog"
	"mysql-broker/broker/httpapi"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/store"
	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

// Clients that send or read slowly are disconnected, however steadily they do so.
func TestSlowClientsAreDisconnected(t *testing.T) {
	t.Parallel()
	page := make([]byte, 64<<10)
	server := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(page)
	}), slog.New(slog.DiscardHandler))
	assert.Equal(t, 10*time.Second, server.ReadHeaderTimeout) // docs/configuration.md
	assert.Equal(t, 30*time.Second, server.ReadTimeout)
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	return listener.Addr().String()
}

// dial connects to a server until the test ends.
func dial(t *testing.T, address string) net.Conn {
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(limits.Stuck)))
	return conn
}

// The certificate's files are as Kubernetes mounts a secret: links through ..data, which a renewal changes. A pair of
// which only the key is new does no harm.
func TestCertificateIsReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, version := range []string{"v1", "v2", "v3"} {
		testdrive.WriteKeyPair(t, filepath.Join(dir, version))
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	link(t, "v1", in("..data"))
	link(t, "..data/tls.crt", in("tls.crt"))
	link(t, "..data/tls.key", in("tls.key"))
	var logged bytes.Buffer
	registry := prometheus.NewRegistry()
	pair, err := newKeyPair(config.TLS{CertificateFile: in("tls.crt"), KeyFile: in("tls.key")},
		slog.New(slog.NewTextHandler(&logged, nil)), registry)
	require.NoError(t, err)
	expect := func(version string) {
		want, err := tls.LoadX509KeyPair(in(version+"/tls.crt"), in(version+"/tls.key"))
		got, _ := pair.config().GetCertificate(nil)
		require.True(t, err == nil && bytes.Equal(got.Certificate[0], want.Certificate[0]),
			"it is not the certificate %s, %v", version, err)
		metrics, err := registry.Gather()
		until := float64(want.Leaf.NotAfter.Unix())
		assert.True(t, err == nil && metrics[0].Metric[0].Gauge.GetValue() == until,
			"the metric is %v, wanted %v, %v", metrics, until, err)
	}
	expect("v1")
	link(t, "v2", in("..data"))
	assert.NoError(t, pair.reload(t.Context()))
	expect("v2")
	require.NoError(t, os.Rename(in("v3/tls.key"), in("v2/tls.key")))
	for range 2 { // it is told as long as it lasts
		assert.Error(t, pair.reload(t.Context()), "a key of another certificate is taken")
	}
	require.NoError(t, os.Rename(in("v3/tls.crt"), in("v2/tls.crt")))
	assert.NoError(t, pair.reload(t.Context()))
	expect("v2")
	n := strings.Count(logged.String(), "expires=")
	assert.Equal(t, 3, n, "%d certificates are logged:\n%s", n, &logged)
}

// link puts a symbolic link in an old one's place.
func link(t *testing.T, target, path string) {
	require.NoError(t, os.Symlink(target, path+".new"))
	require.NoError(t, os.Rename(path+".new", path))
}

// Neither plain HTTP nor a deprecated version of TLS is served.
func TestNothingOlderThanTLS12(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testdrive.WriteKeyPair(t, dir)
	log := slog.New(slog.DiscardHandler)
	pair, err := newKeyPair(config.TLS{CertificateFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")},
		log, prometheus.NewRegistry())
	require.NoError(t, err)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := newServer(http.NotFoundHandler(), log)
	go server.Serve(tls.NewListener(plain, pair.config()))
	t.Cleanup(func() { server.Close() })
	address := plain.Addr().String()
	for version := uint16(tls.VersionTLS10); version <= tls.VersionTLS13; version++ {
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Minute}, "tcp", address,
			&tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
		assert.Equal(t, version >= tls.VersionTLS12, err == nil, "%s: %v", tls.VersionName(version), err)
		if err == nil {
			conn.Close()
		}
	}
	r, err := http.Get("http://" + address)
	require.NoError(t, err)
	defer r.Body.Close()
	said, err := io.ReadAll(r.Body)
	assert.True(t, err == nil && r.StatusCode == http.StatusBadRequest &&
		strings.Contains(string(said), "HTTP request to an HTTPS server"), "HTTP in clear: %d %s %v", r.StatusCode, said, err)
}

// The log has the URL of the profiles.
func TestProfiles(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	a := &App{cfg: config.Config{Pprof: "127.0.0.1:0"}, log: slog.New(slog.NewTextHandler(&logged, nil))}
	end, err := a.startProfiles(t.Context())
	require.NoError(t, err)
	defer end.stop()
	_, url, _ := strings.Cut(strings.TrimSpace(logged.String()), "url=")
	for page, want := range map[string]string{"": "goroutine", "goroutine?debug=1": "goroutine profile: total ",
		"heap?debug=1": "heap profile: ", "profile?seconds=1": ""} {
		r, err := http.Get(url + page)
		require.NoError(t, err)
		content, err := io.ReadAll(r.Body)
		r.Body.Close()
		assert.True(t, err == nil && r.StatusCode == http.StatusOK && strings.Contains(string(content), want),
			"%s: status %d, %d bytes, %v", page, r.StatusCode, len(content), err)
	}
}

// Each word tells operators of /readyz something else to do.
func TestReadinessWords(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"ok":          nil,
		"read-only":   fmt.Errorf("begin: %w", store.ErrReadOnly),
		"full":        fmt.Errorf("begin: %w", store.ErrFull),
		"unreachable": fmt.Errorf("begin: %w", errors.New("connection refused")),
	} {
		assert.Equal(t, want, readinessWord(err), "%v", err)
	}
}

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
	"identity that is an array": {"{get}X-Broker-API-Originating-Identity: cloudfoundry W10=\r\n\r\n", []int{200}},
	"identity of 60 KiB":        {"{get}X-Broker-API-Originating-Identity: " + strings.Repeat("A", 60<<10) + "\r\n\r\n", []int{200}},
	"identity in invalid UTF-8": {"{get}X-Broker-API-Originating-Identity: \xff\xfe \xff\r\n\r\n", []int{200}},
	"request id of 60 KiB":      {"{get}X-Broker-API-Request-Identity: " + strings.Repeat("A", 60<<10) + "\r\n\r\n", []int{200}},
	"request id in Latin-1":     {"{get}X-Broker-API-Request-Identity: \xe4\xf6\xfc\r\n\r\n", []int{200}},
	"forwarded for nobody":      {"{get}X-Forwarded-For: ,,,unknown,_hidden,[::1\r\n\r\n", []int{200}},
	"two logins":                {"{get}Authorization: Basic Og==\r\n\r\n", []int{200}},
	"HTTP/1.0":                  {"GET /v2/catalog HTTP/1.0\r\n{login}\r\n", []int{200}},
	"HTTP/2":                    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{401}},
	"an absolute URL":           {"GET http://elsewhere/v2/catalog HTTP/1.1\r\nHost: broker\r\n{login}\r\n", []int{200}},
	"a proxy's method":          {"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: broker\r\n\r\n", []int{401}},
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
				_, err := io.WriteString(conn, heads.Replace(input.text))
				assert.True(t, err == nil || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
					errors.Is(err, net.ErrClosed), "%v", err)
			}()
			responses := bufio.NewReader(conn)
			for n, want := range input.statuses {
				r, err := http.ReadResponse(responses, nil)
				require.NoError(t, err)
				body, err := io.ReadAll(r.Body)
				told := struct{ Description string }{string(body)} // what net/http refuses itself is in plain text
				if r.Header.Get("Content-Type") == "application/json" {
					told.Description = ""
					_ = json.Unmarshal(body, &told)
				}
				assert.True(t, err == nil && r.StatusCode == want && (want < 400 || told.Description != ""),
					"response %d is %d, %.500s, %v; want %d", n+1, r.StatusCode, body, err, want)
			}
		})
	}
}
