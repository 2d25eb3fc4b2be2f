package kubernetes

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

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

// certificates are those in the Secret of a server.
type certificates struct {
	leaf    *x509.Certificate
	trusted []*x509.Certificate
}

func (s *server) certificates() (c certificates, err error) {
	leaf, err := certificate.Parse(s.secret.Data[certFile])
	if err != nil || len(leaf) != 1 {
		return c, errors.Join(err, fmt.Errorf("server %s: its Secret holds %d certificates", s.id, len(leaf)))
	}
	c.leaf = leaf[0]
	c.trusted, err = certificate.Parse(s.secret.Data[caFile])
	return c, err
}

// withOwn returns all CAs that clients need until the server uses the next certificate: those of the authority, and the
// one of the present certificate. If the server has not loaded that certificate, its former CA stays trusted too.
func (c certificates) withOwn(trusted []byte, loaded bool) []byte {
	if !loaded {
		return joinPEM(trusted, c.trusted...)
	}
	if own := certificate.Issuer(c.leaf, c.trusted); own != nil {
		return joinPEM(trusted, own)
	}
	return trusted
}

// joinPEM puts certificates that are not among trusted before them.
func joinPEM(trusted []byte, others ...*x509.Certificate) []byte {
	for _, c := range others {
		if text := toPEM("CERTIFICATE", c.Raw); !bytes.Contains(trusted, text) {
			trusted = append(text, trusted...)
		}
	}
	return trusted
}
