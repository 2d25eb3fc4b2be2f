package kubernetes

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"time"

	"mysql-broker/provisioner/launcher/certificate"
)

const authorityTime = 10 * time.Second // to read which CA signs

// addKeys adds a new key, and a certificate for that host and those of its Service, to a server's Secret.
func (c Config) addKeys(ctx context.Context, s *server, host string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	name, hosts := "mysql "+s.id, append(c.serviceHosts(s), host)
	var trusted, leaf, issuer []byte
	if c.Authority == nil {
		if issuer, leaf, err = certificate.New(name, key, hosts...); err != nil {
			return err
		}
		trusted = toPEM("CERTIFICATE", issuer)
	} else {
		authority, err := c.authority(ctx)
		if err != nil {
			return err
		}
		signer, err := authority.Signer()
		if err != nil {
			return err
		}
		if leaf, err = signer.Sign(name, key.Public(), hosts...); err != nil {
			return err
		}
		trusted, issuer = signer.Trusted, signer.Certificate.Raw
	}
	s.secret.Data[caFile] = trusted
	s.secret.Data[keyFile] = toPEM("PRIVATE KEY", private)
	return s.setCertificate(issuer, leaf)
}

// setCertificate sets the certificate of a server, and the annotations by which it is recognized in lists.
func (s *server) setCertificate(issuer, leaf []byte) error {
	parsed, err := x509.ParseCertificate(leaf)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	s.secret.Data[certFile] = toPEM("CERTIFICATE", leaf)
	maps.Copy(s.secret.Metadata.Annotations, map[string]string{
		caAnnotation:          fingerprint(issuer),
		certificateAnnotation: fingerprint(leaf),
		expiresAnnotation:     parsed.NotAfter.UTC().Format(time.RFC3339),
		trustedAnnotation:     fingerprint(s.secret.Data[caFile]),
	})
	return nil
}

// authority reads which CA signs.
func (c Config) authority(ctx context.Context) (certificate.Authority, error) {
	ctx, cancel := context.WithTimeout(ctx, authorityTime)
	defer cancel()
	a, err := c.Authority(ctx)
	if err != nil {
		return a, fmt.Errorf("read which CA signs for dedicated servers: %w", err)
	}
	return a, nil
}

func toPEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func fingerprint(der []byte) string { return fmt.Sprintf("%x", sha256.Sum256(der)) }

func fingerprintOf(ca []byte) (string, error) {
	all, err := certificate.Parse(ca)
	if err != nil || len(all) != 1 {
		return "", errors.Join(err, fmt.Errorf("%d certificates of a CA, want one", len(all)))
	}
	return fingerprint(all[0].Raw), nil
}
