package credhub

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// InstanceIdentity writes the certificate and the key that Cloud Foundry gives an instance of an application. The server
// knows the certificate itself, whoever has signed it.
func (s *Server) InstanceIdentity(guid string) (certificatePath, keyPath string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(s.t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		Subject: pkix.Name{CommonName: uuid.NewString(), OrganizationalUnit: []string{"app:" + guid}}}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(s.t, err)
	rawKey, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(s.t, err)
	s.mu.Lock()
	s.applications[string(certificate)] = guid
	s.mu.Unlock()
	dir := s.t.TempDir()
	write := func(name, kind string, raw []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(s.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600))
		return path
	}
	return write("instance.crt", "CERTIFICATE", certificate), write("instance.key", "PRIVATE KEY", rawKey)
}
