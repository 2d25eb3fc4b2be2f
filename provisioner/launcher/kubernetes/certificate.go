package kubernetes

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/certificate"
)

// errSeen ends a connection whose certificate was read.
var errSeen = errors.New("the certificate was read")

// presented returns the certificate that a server presents, in DER. It does not log in.
func presented(ctx context.Context, e launcher.Endpoint) (leaf []byte, err error) {
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.Logger = "tcp", e.AdminAddress(), "nobody", &mysql.NopLogger{}
	cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: true, // #nosec G402 -- nothing is sent; whether it is the expected one is for the caller
		VerifyConnection: func(state tls.ConnectionState) error {
			leaf = state.PeerCertificates[0].Raw
			return errSeen
		}}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	conn, err := connector.Connect(ctx)
	if err == nil {
		_ = conn.Close()
		return nil, errors.New("the server has no TLS")
	}
	if leaf == nil {
		return nil, err
	}
	return leaf, nil
}

const authorityTime = 10 * time.Second // to read which CA signs

// addKeys adds a new key, and a certificate for that host and those of its Service, to a server's Secret. The CAs in it
// stay.
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
		trusted = certificate.PEM("CERTIFICATE", issuer)
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
	former, _ := certificate.Parse(s.secret.Data[caFile]) // what nobody can parse, nobody trusts
	s.secret.Data[caFile] = certificate.Join(trusted, former...)
	s.secret.Data[keyFile] = certificate.PEM("PRIVATE KEY", private)
	return s.setCertificate(issuer, leaf)
}

// setCertificate sets the certificate of a server, and the annotations by which it is recognized in lists.
func (s *server) setCertificate(issuer, leaf []byte) error {
	parsed, err := x509.ParseCertificate(leaf)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	s.secret.Data[certFile] = certificate.PEM("CERTIFICATE", leaf)
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

func fingerprint(der []byte) string { return fmt.Sprintf("%x", sha256.Sum256(der)) }

func fingerprintOf(ca []byte) (string, error) {
	all, err := certificate.Parse(ca)
	if err != nil || len(all) != 1 {
		return "", errors.Join(err, fmt.Errorf("%d certificates of a CA, want one", len(all)))
	}
	return fingerprint(all[0].Raw), nil
}
