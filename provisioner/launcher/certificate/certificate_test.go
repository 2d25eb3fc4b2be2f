package certificate_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	"mysql-broker/provisioner/launcher/certificate"
)

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAuthority(t *testing.T) certificate.Authority {
	t.Helper()
	cert, key, err := certificate.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return certificate.Authority{Certificate: cert, Key: key, Trusted: cert}
}

func parse(t *testing.T, der []byte) *x509.Certificate {
	t.Helper()
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// expect verifies a server's certificate as a client does.
func expect(t *testing.T, leaf *x509.Certificate, roots *x509.CertPool, lifetime time.Duration) {
	t.Helper()
	for host, good := range map[string]bool{"db.example.com": true, "127.0.0.1": true, "other.example.com": false, "127.0.0.2": false} {
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots}); (err == nil) != good {
			t.Errorf("for %s: %v", host, err)
		}
	}
	if left := time.Until(leaf.NotAfter); left > lifetime || left < lifetime-time.Hour {
		t.Errorf("it is valid for %v", left)
	}
	if leaf.IsCA || leaf.Subject.CommonName != "d_1" {
		t.Errorf("it is a CA: %t, of %s", leaf.IsCA, leaf.Subject)
	}
}

func TestAuthorityOfOneServer(t *testing.T) {
	t.Parallel()
	ca, leaf, err := certificate.New("d_1", newKey(t), "db.example.com", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parse(t, ca))
	expect(t, parse(t, leaf), roots, 20*365*24*time.Hour)
}

func TestAuthorityOfAllServers(t *testing.T) {
	t.Parallel()
	old, next := newAuthority(t), newAuthority(t)
	next.Trusted = slices.Concat(next.Certificate, old.Certificate)
	signer, err := next.Signer()
	if err != nil {
		t.Fatal(err)
	}
	der, err := signer.Sign("d_1", newKey(t).Public(), "db.example.com", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	leaf := parse(t, der)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(next.Certificate) {
		t.Fatal("the CA is no PEM")
	}
	expect(t, leaf, roots, 2*certificate.RenewBefore)
	oldSigner, err := old.Signer()
	if err != nil {
		t.Fatal(err)
	}
	if len(signer.All) != 2 || certificate.Issuer(leaf, signer.All) != signer.All[0] || certificate.Issuer(leaf, oldSigner.All) != nil {
		t.Errorf("the issuer is not the first of %d", len(signer.All))
	}
	if bytes.Equal(signer.All[0].RawSubject, signer.All[1].RawSubject) {
		t.Error("OpenSSL cannot tell two CAs apart")
	}
}

func TestMalformedAuthority(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil func(*certificate.Authority)
		says  string
	}{
		"no certificate":            {func(a *certificate.Authority) { a.Certificate = nil }, "0 certificates"},
		"two certificates":          {func(a *certificate.Authority) { a.Certificate = append(a.Certificate, a.Certificate...) }, "2 certificates"},
		"no key":                    {func(a *certificate.Authority) { a.Key = nil }, "not PEM"},
		"a certificate only":        {func(a *certificate.Authority) { a.Key = a.Certificate }, "not PKCS #8"},
		"trusted is no certificate": {func(a *certificate.Authority) { a.Trusted = a.Key }, "x509"},
	} {
		a := newAuthority(t)
		key := string(a.Key)
		test.spoil(&a)
		if _, err := a.Signer(); err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
