package testdrive

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"mysql-broker/provisioner/launcher/certificate"
)

// NewKeyPair returns a new CA, and a key and a certificate for hosts, all in PEM.
func NewKeyPair(t testing.TB, hosts ...string) (ca string, key, leaf []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	caDER, leafDER, err := certificate.New("test", private, hosts...)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	return string(encode("CERTIFICATE", caDER)), encode("PRIVATE KEY", der), encode("CERTIFICATE", leafDER)
}

// WriteKeyPair writes ca.crt, tls.crt and tls.key for 127.0.0.1 into a directory, which it makes.
func WriteKeyPair(t testing.TB, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ca, key, leaf := NewKeyPair(t, "127.0.0.1")
	for name, content := range map[string][]byte{"ca.crt": []byte(ca), "tls.key": key, "tls.crt": leaf} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
