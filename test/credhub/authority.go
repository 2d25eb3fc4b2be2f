package credhub

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// authority signs the certificates of CredHub, of UAA and of applications.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) (a authority) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CredHub CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	a.certificate, err = x509.ParseCertificate(raw)
	require.NoError(t, err)
	a.key = key
	return a
}

func (a authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}))
}

func (a authority) sign(t testing.TB, of *x509.Certificate) (certificate []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	of.SerialNumber = big.NewInt(time.Now().UnixNano())
	of.NotBefore, of.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	certificate, err = x509.CreateCertificate(rand.Reader, of, a.certificate, &key.PublicKey, a.key)
	require.NoError(t, err)
	return certificate, key
}

// serverConfig also accepts certificates of applications, but does not require one.
func (a authority) serverConfig(t testing.TB, askCertificate bool) *tls.Config {
	t.Helper()
	certificate, key := a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "credhub"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	c := &tls.Config{MinVersion: tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}}
	if askCertificate {
		c.ClientCAs = x509.NewCertPool()
		c.ClientCAs.AddCert(a.certificate)
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return c
}

// InstanceIdentity writes the certificate and the key that Cloud Foundry gives an instance of an application.
func (s *Server) InstanceIdentity(guid string) (certificatePath, keyPath string) {
	s.t.Helper()
	certificate, key := s.authority.sign(s.t, &x509.Certificate{
		Subject:     pkix.Name{CommonName: uuid.NewString(), OrganizationalUnit: []string{"app:" + guid}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	rawKey, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(s.t, err)
	dir := s.t.TempDir()
	write := func(name, kind string, raw []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(s.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600))
		return path
	}
	return write("instance.crt", "CERTIFICATE", certificate), write("instance.key", "PRIVATE KEY", rawKey)
}
