package process

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"
)

// certificateLifetime outlasts a server; there is nothing that would renew its certificate.
const certificateLifetime = 20 * 365 * 24 * time.Hour

// certificate is what a server proves itself with. MySQL's own certificates name no host, which Go and others refuse.
type certificate struct {
	ca, leaf []byte            // DER
	key      *ecdsa.PrivateKey // of the leaf
}

// newCertificate makes a certificate for hosts under a new authority, whose key is forgotten at once: it can never
// sign another.
func newCertificate(name string, hosts ...string) (certificate, error) {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate{}, fmt.Errorf("certificate authority: %w", err)
	}
	authority := certificateOf(name + " CA")
	authority.IsCA, authority.BasicConstraintsValid = true, true
	authority.KeyUsage = x509.KeyUsageCertSign
	ca, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return certificate{}, fmt.Errorf("certificate authority: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate{}, fmt.Errorf("certificate: %w", err)
	}
	leaf := certificateOf(name)
	leaf.KeyUsage = x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	addHosts(leaf, hosts)
	der, err := x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), authorityKey)
	if err != nil {
		return certificate{}, fmt.Errorf("certificate: %w", err)
	}
	return certificate{ca: ca, leaf: der, key: key}, nil
}

func certificateOf(name string) *x509.Certificate {
	serial := make([]byte, 16)
	_, _ = rand.Read(serial) // never fails
	serial[0] &= 0x7f        // RFC 5280, 4.1.2.2: positive
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour), // clients' clocks differ
		NotAfter:     time.Now().Add(certificateLifetime),
	}
}

func addHosts(cert *x509.Certificate, hosts []string) {
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			cert.IPAddresses = append(cert.IPAddresses, ip)
		} else {
			cert.DNSNames = append(cert.DNSNames, host)
		}
	}
}
