package certificate

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// Authority is the CA that signs the certificates of all of a broker's servers. Launchers keep its key in memory only.
type Authority struct {
	Certificate []byte // PEM
	Key         []byte // PEM, PKCS #8
	Trusted     []byte // PEM: what clients must trust, including Certificate
	TakesOver   bool   // servers with a CA of their own get a certificate signed by this one
}

// NewAuthority generates a key and a CA certificate that is valid for 20 years.
func NewAuthority() (certificatePEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate authority: %w", err)
	}
	// Each needs a different name, because OpenSSL looks an issuer up by name.
	template := authorityOf("mysql-broker dedicated servers " + rand.Text()[:8])
	template.MaxPathLenZero = true
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate authority: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate authority: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), nil
}

// Signer is a parsed Authority.
type Signer struct {
	Certificate *x509.Certificate
	Trusted     []byte              // PEM
	All         []*x509.Certificate // those of Trusted
	TakesOver   bool
	key         crypto.Signer
}

// Signer parses the authority.
func (a Authority) Signer() (*Signer, error) {
	certificates, err := Parse(a.Certificate)
	if err != nil || len(certificates) != 1 {
		return nil, errors.Join(err, fmt.Errorf("the CA has %d certificates", len(certificates)))
	}
	all, err := Parse(a.Trusted)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(a.Key)
	if block == nil {
		return nil, errors.New("the CA's key is not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the CA's key is not PKCS #8")
	}
	signing, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("the CA's key cannot sign")
	}
	return &Signer{certificates[0], a.Trusted, all, a.TakesOver, signing}, nil
}

// Parse returns all certificates of a PEM text.
func Parse(text []byte) (all []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return all, nil
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
}

// Issuer returns the certificate in all that has signed leaf; nil if none has.
func Issuer(leaf *x509.Certificate, all []*x509.Certificate) *x509.Certificate {
	for _, c := range all {
		if leaf.CheckSignatureFrom(c) == nil {
			return c
		}
	}
	return nil
}
