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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/certificate"
)

func newKey(t *testing.T) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func newAuthority(t *testing.T) certificate.Authority {
	cert, key, err := certificate.NewAuthority()
	require.NoError(t, err)
	return certificate.Authority{Certificate: cert, Key: key, Trusted: cert}
}

func parse(t *testing.T, der []byte) *x509.Certificate {
	c, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return c
}

// expect verifies a server's certificate as a client does.
func expect(t *testing.T, leaf *x509.Certificate, roots *x509.CertPool, lifetime time.Duration) {
	for host, good := range map[string]bool{"db.example.com": true, "127.0.0.1": true, "other.example.com": false, "127.0.0.2": false} {
		_, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots})
		assert.Equal(t, good, err == nil, "for %s: %v", host, err)
	}
	left := time.Until(leaf.NotAfter)
	assert.True(t, left <= lifetime && left >= lifetime-time.Hour, "it is valid for %v", left)
	assert.True(t, !leaf.IsCA && leaf.Subject.CommonName == "d_1", "it is a CA: %t, of %s", leaf.IsCA, leaf.Subject)
}

func TestAuthorityOfOneServer(t *testing.T) {
	t.Parallel()
	ca, leaf, err := certificate.New("d_1", newKey(t), "db.example.com", "127.0.0.1")
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(parse(t, ca))
	expect(t, parse(t, leaf), roots, 20*365*24*time.Hour)
}

func TestAuthorityOfAllServers(t *testing.T) {
	t.Parallel()
	old, next := newAuthority(t), newAuthority(t)
	next.Trusted = slices.Concat(next.Certificate, old.Certificate)
	signer, err := next.Signer()
	require.NoError(t, err)
	der, err := signer.Sign("d_1", newKey(t).Public(), "db.example.com", "127.0.0.1")
	require.NoError(t, err)
	leaf := parse(t, der)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(next.Certificate), "the CA is no PEM")
	expect(t, leaf, roots, 2*certificate.RenewBefore)
	oldSigner, err := old.Signer()
	require.NoError(t, err)
	assert.True(t, len(signer.All) == 2 && certificate.Issuer(leaf, signer.All) == signer.All[0] &&
		certificate.Issuer(leaf, oldSigner.All) == nil, "the issuer is not the first of %d", len(signer.All))
	assert.False(t, bytes.Equal(signer.All[0].RawSubject, signer.All[1].RawSubject), "OpenSSL cannot tell two CAs apart")
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
		_, err := a.Signer()
		assert.False(t, err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), key),
			"%s: %v", name, err)
	}
}
