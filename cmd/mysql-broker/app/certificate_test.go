package app

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mysql-broker/cmd/mysql-broker/config"
)

// Whatever the files go through, there is a pair to use, and each fault is reported once however often it is seen.
func TestCertificateReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := config.TLS{CertificateFile: filepath.Join(dir, "c"), KeyFile: filepath.Join(dir, "k")}
	write := func(certificate, key []byte) {
		t.Helper()
		for path, content := range map[string][]byte{files.CertificateFile: certificate, files.KeyFile: key} {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	certificate1, key1 := newPair(t, 1)
	certificate2, key2 := newPair(t, 2)
	write(certificate1, key1)
	var log bytes.Buffer
	c, err := newKeyPair(files, slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	status := c.status()
	for _, step := range []struct {
		name             string
		certificate, key []byte
		serial           int64
		faults, loads    int // in the log since the beginning
	}{
		{"unchanged", certificate1, key1, 1, 0, 1},
		{"key of another", certificate1, key2, 1, 1, 1},
		{"empty", nil, nil, 1, 2, 1},
		{"cut short", certificate1[:len(certificate1)/2], key1, 1, 2, 1},
		{"mended as it was", certificate1, key1, 1, 2, 1},
		{"key of another again", certificate1, key2, 1, 3, 1},
		{"another", certificate2, key2, 2, 3, 2},
		{"another with its chain", append(bytes.Clone(certificate2), certificate1...), key2, 2, 3, 3},
	} {
		write(step.certificate, step.key)
		for range 3 {
			status.Report(t.Context(), c.reload(t.Context()))
		}
		if got := c.latest.Load().Leaf.SerialNumber.Int64(); got != step.serial {
			t.Errorf("%s: certificate %d, want %d", step.name, got, step.serial)
		}
		faults, loads := strings.Count(log.String(), "level=ERROR"), strings.Count(log.String(), "expires=")
		if faults != step.faults || loads != step.loads {
			t.Errorf("%s: %d faults and %d loads in the log, want %d and %d:\n%s", step.name, faults, loads, step.faults,
				step.loads, &log)
		}
	}
	if err := os.Remove(files.KeyFile); err != nil {
		t.Fatal(err)
	}
	if err := c.reload(t.Context()); err == nil || c.latest.Load().Leaf.SerialNumber.Int64() != 2 {
		t.Error("the certificate is gone with its file")
	}
	for _, key := range [][]byte{key1, key2} {
		if strings.Contains(log.String(), string(key[40:80])) {
			t.Error("the log holds a key")
		}
	}
}

func newPair(t *testing.T, serial int64) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}
