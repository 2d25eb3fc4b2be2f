package app

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		t.Helper()
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
	t.Helper()
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
	for version, served := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Minute}, "tcp", address,
			&tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
		if served != (err == nil) {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			conn.Close()
		}
	}
	r, err := http.Get("http://" + address)
	require.NoError(t, err)
	defer r.Body.Close()
	if said, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusBadRequest ||
		!strings.Contains(string(said), "HTTP request to an HTTPS server") {
		t.Errorf("HTTP in clear: %d %s %v", r.StatusCode, said, err)
	}
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
		if err != nil || r.StatusCode != http.StatusOK || !strings.Contains(string(content), want) {
			t.Errorf("%s: status %d, %d bytes, %v", page, r.StatusCode, len(content), err)
		}
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
