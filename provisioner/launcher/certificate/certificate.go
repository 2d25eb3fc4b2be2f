// Package certificate makes the certificates of dedicated servers, and the authorities (CAs) that sign them.
package certificate

import (
	"crypto"
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

const (
	// lifetime is how long a CA is valid, and a certificate that nothing renews: longer than any server lives.
	lifetime = 20 * 365 * 24 * time.Hour

	// leafLifetime is how long a certificate is valid that launchers renew. They do so when RenewBefore is left.
	leafLifetime = 2 * 365 * 24 * time.Hour
	RenewBefore  = leafLifetime / 2
)

// New returns a certificate for hosts and the new CA that signed it, both in DER. The CA's key is discarded, so it can
// never sign another. The certificates that MySQL generates name no host, so Go and other clients refuse them.
func New(name string, key *ecdsa.PrivateKey, hosts ...string) (ca, leaf []byte, err error) {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate authority: %w", err)
	}
	authority := authorityOf(name + " CA")
	ca, err = x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate authority: %w", err)
	}
	leaf, err = x509.CreateCertificate(rand.Reader, leafOf(name, hosts), authority, key.Public(), authorityKey)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate: %w", err)
	}
	return ca, leaf, nil
}

// Sign returns a certificate, in DER, for hosts and that public key.
func (s *Signer) Sign(name string, public crypto.PublicKey, hosts ...string) (leaf []byte, err error) {
	template := leafOf(name, hosts)
	template.NotAfter = time.Now().Add(leafLifetime)
	if leaf, err = x509.CreateCertificate(rand.Reader, template, s.Certificate, public, s.key); err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return leaf, nil
}

func authorityOf(name string) *x509.Certificate {
	authority := certificateOf(name)
	authority.IsCA, authority.BasicConstraintsValid = true, true
	authority.KeyUsage = x509.KeyUsageCertSign
	return authority
}

func leafOf(name string, hosts []string) *x509.Certificate {
	leaf := certificateOf(name)
	leaf.KeyUsage = x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	addHosts(leaf, hosts)
	return leaf
}

func certificateOf(name string) *x509.Certificate {
	serial := make([]byte, 16)
	_, _ = rand.Read(serial) // never fails
	serial[0] &= 0x7f        // RFC 5280, 4.1.2.2: positive
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().AddDate(0, 0, -1), // this host's or a client's clock may be wrong
		NotAfter:     time.Now().Add(lifetime),
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
