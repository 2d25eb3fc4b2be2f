package certificate

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
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
	return PEM("CERTIFICATE", der), PEM("PRIVATE KEY", private), nil
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

// Due reports whether this authority has to sign another certificate in place of a server's. issuer is which of its CAs
// has signed that one; nil for another CA.
func (s *Signer) Due(leaf *x509.Certificate) (issuer *x509.Certificate, due bool) {
	issuer = Issuer(leaf, s.All)
	return issuer, s.TakesOver && (issuer == nil || !issuer.Equal(s.Certificate)) ||
		issuer != nil && time.Until(leaf.NotAfter) < RenewBefore
}

// PEM encodes something of a kind.
func PEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Join puts certificates that are not among trusted before them, in PEM; nil stands for none.
func Join(trusted []byte, others ...*x509.Certificate) []byte {
	for _, c := range others {
		if c == nil {
			continue
		}
		if text := PEM("CERTIFICATE", c.Raw); !bytes.Contains(trusted, text) {
			trusted = append(text, trusted...)
		}
	}
	return trusted
}

// Pair is the certificate of a server, and the CAs that its clients trust.
type Pair struct {
	Leaf    *x509.Certificate
	Trusted []*x509.Certificate
}

// ParsePair parses both, in PEM.
func ParsePair(leaf, trusted []byte) (p Pair, err error) {
	leaves, err := Parse(leaf)
	if err != nil || len(leaves) != 1 {
		return p, errors.Join(err, fmt.Errorf("%d certificates of the server, not one", len(leaves)))
	}
	p.Leaf = leaves[0]
	p.Trusted, err = Parse(trusted)
	return p, err
}

// Own is the CA that has signed the certificate; nil if clients do not trust it.
func (p Pair) Own() *x509.Certificate { return Issuer(p.Leaf, p.Trusted) }

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
