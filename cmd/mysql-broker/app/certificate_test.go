package app

import (
	"bytes"
	"crypto/tls"
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
	"mysql-broker/test/testdrive"
)

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
