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
	if err != nil {
		t.Fatal(err)
	}
	expect := func(version string) {
		t.Helper()
		want, err := tls.LoadX509KeyPair(in(version+"/tls.crt"), in(version+"/tls.key"))
		got, _ := pair.config().GetCertificate(nil)
		if err != nil || !bytes.Equal(got.Certificate[0], want.Certificate[0]) {
			t.Fatalf("it is not the certificate %s, %v", version, err)
		}
		metrics, err := registry.Gather()
		if until := float64(want.Leaf.NotAfter.Unix()); err != nil || metrics[0].Metric[0].Gauge.GetValue() != until {
			t.Errorf("the metric is %v, wanted %v, %v", metrics, until, err)
		}
	}
	expect("v1")
	link(t, "v2", in("..data"))
	if err := pair.reload(t.Context()); err != nil {
		t.Error(err)
	}
	expect("v2")
	if err := os.Rename(in("v3/tls.key"), in("v2/tls.key")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it is told as long as it lasts
		if err := pair.reload(t.Context()); err == nil {
			t.Error("a key of another certificate is taken")
		}
	}
	if err := os.Rename(in("v3/tls.crt"), in("v2/tls.crt")); err != nil {
		t.Fatal(err)
	}
	if err := pair.reload(t.Context()); err != nil {
		t.Error(err)
	}
	expect("v2")
	if n := strings.Count(logged.String(), "expires="); n != 3 {
		t.Errorf("%d certificates are logged:\n%s", n, &logged)
	}
}

// link puts a symbolic link in an old one's place.
func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Neither plain HTTP nor a deprecated version of TLS is served.
func TestNothingOlderThanTLS12(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testdrive.WriteKeyPair(t, dir)
	log := slog.New(slog.DiscardHandler)
	pair, err := newKeyPair(config.TLS{CertificateFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")},
		log, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if said, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusBadRequest ||
		!strings.Contains(string(said), "HTTP request to an HTTPS server") {
		t.Errorf("HTTP in clear: %d %s %v", r.StatusCode, said, err)
	}
}
