package process

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/periodic"
)

const (
	authorityInterval = 10 * time.Second // how often it is asked who signs
	authorityTime     = 10 * time.Second // for an answer to that
)

// Authority signs the certificates of all servers of a broker. The launcher keeps its key in memory only.
type Authority struct {
	Certificate []byte // PEM
	Key         []byte // PEM, PKCS #8
	Trusted     []byte // PEM: what clients are to trust, Certificate among it
	TakesOver   bool   // servers that have a CA of their own are to get a certificate of this one
}

// NewAuthority makes a certificate, which is valid for 20 years, and its key.
func NewAuthority() (certificatePEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate authority: %w", err)
	}
	// Two of them must not have the same name: OpenSSL looks an issuer up by it.
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

// signer is an Authority that was read.
type signer struct {
	certificate *x509.Certificate
	key         crypto.Signer
	trusted     []byte // PEM
	all         []*x509.Certificate
	takesOver   bool
}

func (a Authority) signer() (*signer, error) {
	certificates, err := parseCertificates(a.Certificate)
	if err != nil || len(certificates) != 1 {
		return nil, errors.Join(err, fmt.Errorf("the CA has %d certificates", len(certificates)))
	}
	all, err := parseCertificates(a.Trusted)
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
	return &signer{certificates[0], signing, a.Trusted, all, a.TakesOver}, nil
}

func parseCertificates(text []byte) (all []*x509.Certificate, err error) {
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

// issuerOf is the one of these that has signed a certificate; nil if none has.
func issuerOf(leaf *x509.Certificate, all []*x509.Certificate) *x509.Certificate {
	for _, c := range all {
		if leaf.CheckSignatureFrom(c) == nil {
			return c
		}
	}
	return nil
}

// loadAuthority asks who signs.
func (l *Launcher) loadAuthority(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, authorityTime)
	defer cancel()
	a, err := l.cfg.Authority(ctx)
	if err != nil {
		return err
	}
	s, err := a.signer()
	if err != nil {
		return err
	}
	l.signs.Store(s)
	return nil
}

// followAuthority learns of changes until the context ends.
func (l *Launcher) followAuthority(ctx context.Context) {
	periodic.Run(ctx, periodic.Schedule{Every: authorityInterval, Delay: authorityInterval},
		&periodic.Status{What: "reading which CA signs for dedicated servers", Meanwhile: "the last one does",
			Log: l.cfg.Logger}, l.loadAuthority)
}
