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

// serviceHosts returns the host names of a server within its cluster.
func (l *Launcher) serviceHosts(s *server) []string {
	host := s.name + "." + l.cfg.Namespace + ".svc"
	return []string{host, host + ".cluster.local", s.name + "." + l.cfg.Namespace, s.name}
}

// certificateHosts returns the names in the certificate of a server whose host is that.
func (l *Launcher) certificateHosts(s *server, host string) []string {
	return append(l.serviceHosts(s), host)
}

// addKeys adds a new key, and a certificate for these hosts, to a server's Secret.
func (l *Launcher) addKeys(ctx context.Context, s *server, hosts ...string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	name := "mysql " + s.id
	var trusted, leaf, issuer []byte
	if l.cfg.Authority == nil {
		if issuer, leaf, err = certificate.New(name, key, hosts...); err != nil {
			return err
		}
		trusted = toPEM("CERTIFICATE", issuer)
	} else {
		authority, err := l.authority(ctx)
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
func (l *Launcher) authority(ctx context.Context) (certificate.Authority, error) {
	ctx, cancel := context.WithTimeout(ctx, authorityTime)
	defer cancel()
	a, err := l.cfg.Authority(ctx)
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
