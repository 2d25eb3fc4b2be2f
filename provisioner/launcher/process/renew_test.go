package process_test

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/certificate"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/launchertest"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A certificate is renewed long before it expires, and servers that are launched have one of the CA.
func TestCertificateIsRenewed(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		spec := newSpec("aging")
		authority := launchertest.NewAuthority(t)
		configured := &launchertest.Authorities{}
		configured.Set(authority, false, authority)
		cfg.Authority = configured.Get
		withExec(t, &cfg, spec)
		l := open(t, cfg)
		end := launch(t, l, spec)
		next := newSpec("next")
		got := launch(t, l, next)
		assert.NoError(t, connect(t, next, got).PingContext(t.Context()))
		assert.Equal(t, authority.Certificate, end.CACertificate)
		assert.Equal(t, authority.Certificate, got.CACertificate, "of the next server")
		l.Close()

		file := filepath.Join(cfg.Dir, "instances", spec.ID, "tls", "server.pem")
		writeAging(t, file, authority)
		require.NoError(t, cfg.Exec(t.Context(), spec.ID, end, map[string]string{mysqld.MySQL: "ALTER INSTANCE RELOAD TLS",
			mysqld.MariaDB: "FLUSH SSL"}[binary.Flavour]))
		until := expiry(t, spec, end)
		require.True(t, time.Until(until) <= 40*24*time.Hour, "the server has a certificate until %v yet", until)
		open(t, cfg)
		testdrive.Eventually(t, "the certificate is renewed", func() bool {
			return time.Until(expiry(t, spec, end)) > 365*24*time.Hour
		})
	})
}

// writeAging replaces a server's certificate by one that expires in a month.
func writeAging(t *testing.T, file string, by certificate.Authority) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	leaf, ca := parseCertificate(t, text), parseCertificate(t, by.Certificate)
	block, _ := pem.Decode(by.Key)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	require.NoError(t, err)
	leaf.NotAfter, leaf.SerialNumber = time.Now().Add(30*24*time.Hour), big.NewInt(1)
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, leaf.PublicKey, key.(crypto.Signer))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644))
}

func parseCertificate(t *testing.T, text []byte) *x509.Certificate {
	block, _ := pem.Decode(text)
	certificate, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return certificate
}

// expiry is that of the certificate which the server shows.
func expiry(t *testing.T, spec launcher.Spec, end launcher.Endpoint) (at time.Time) {
	cfg, err := servers.Login(end.Host, end.Port, spec.AdminUser, spec.AdminPassword, string(end.CACertificate))
	require.NoError(t, err)
	cfg.TLS.VerifyConnection = func(c tls.ConnectionState) error {
		at = c.PeerCertificates[0].NotAfter
		return nil
	}
	db := testdrive.Connect(t, cfg)
	defer db.Close() // it is called again and again
	require.NoError(t, db.PingContext(t.Context()))
	return at
}
