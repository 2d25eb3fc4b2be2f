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
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/certificate"
	"mysql-broker/provisioner/launcher/launchertest"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

// verified says whether a login succeeds where the server is verified against these CAs.
func verified(t *testing.T, spec launcher.Spec, end launcher.Endpoint, trusted []byte) bool {
	t.Helper()
	end.CACertificate = trusted
	return connect(t, spec, end).PingContext(t.Context()) == nil
}

// A server with a CA of its own, as all had once, keeps its certificate until its CA is to be replaced, and clients can
// trust the other one before. It is never restarted for that, and its sessions stay.
func TestServerChangesItsAuthority(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		spec := newSpec("heir")
		old := open(t, cfg)
		before := launch(t, old, spec)
		old.Close()
		pid := pidOf(t, cfg, spec.ID)
		session := connect(t, spec, before)
		session.SetMaxOpenConns(1)
		testdrive.Exec(t, session, "SET @kept = 7")

		first, second := launchertest.NewAuthority(t), launchertest.NewAuthority(t)
		configured := &launchertest.Authorities{}
		configured.Set(first, false, first)
		cfg.Authority = configured.Get
		withExec(t, &cfg, spec)
		l := open(t, cfg)
		endpoint := func() launcher.Endpoint {
			end, err := l.Endpoint(t.Context(), spec.ID)
			require.NoError(t, err)
			return end
		}
		testdrive.Eventually(t, limits.Stuck, "clients are told of both CAs", func() bool {
			ca := string(endpoint().CACertificate)
			return strings.Contains(ca, string(before.CACertificate)) && strings.Contains(ca, string(first.Certificate))
		})
		assert.True(t, verified(t, spec, before, before.CACertificate) && !verified(t, spec, before, first.Certificate),
			"the server has another certificate before it was to")

		configured.Set(first, true, first)
		testdrive.Eventually(t, limits.Stuck, "the server has a certificate of the CA", func() bool {
			return string(endpoint().CACertificate) == string(first.Certificate) &&
				verified(t, spec, before, first.Certificate)
		})
		configured.Set(first, true, second, first)
		testdrive.Eventually(t, limits.Stuck, "clients are told of the next CA", func() bool {
			return string(endpoint().CACertificate) == string(second.Certificate)+string(first.Certificate)
		})
		configured.Set(second, true, second, first)
		testdrive.Eventually(t, limits.Stuck, "the server has a certificate of the next CA", func() bool {
			return verified(t, spec, before, second.Certificate)
		})
		ids, err := l.SignedBy(t.Context(), first.Certificate)
		assert.True(t, err == nil && len(ids) == 0, "still signed by the CA before: %v, %v", ids, err)
		configured.Set(second, true, second)
		testdrive.Eventually(t, limits.Stuck, "clients are told of the one CA that is left", func() bool {
			return string(endpoint().CACertificate) == string(second.Certificate)
		})
		assert.True(t, testdrive.Read[int64](t, session, "SELECT @kept") == 7 && pidOf(t, cfg, spec.ID) == pid,
			"the server was restarted, or its sessions ended")
	})
}

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
		if got := launch(t, l, next); string(got.CACertificate) != string(end.CACertificate) ||
			string(got.CACertificate) != string(authority.Certificate) || !verified(t, next, got, authority.Certificate) {
			t.Error("two servers are of two CAs")
		}
		l.Close()

		file := filepath.Join(cfg.Dir, "instances", spec.ID, "tls", "server.pem")
		writeAging(t, file, authority)
		require.NoError(t, cfg.Exec(t.Context(), spec.ID, end, map[string]string{mysqld.MySQL: "ALTER INSTANCE RELOAD TLS",
			mysqld.MariaDB: "FLUSH SSL"}[binary.Flavour]))
		got := expiry(t, spec, end)
		require.True(t, time.Until(got) <= 40*24*time.Hour, "the server has a certificate until %v yet", got)
		open(t, cfg)
		testdrive.Eventually(t, limits.Stuck, "the certificate is renewed", func() bool {
			return time.Until(expiry(t, spec, end)) > 365*24*time.Hour
		})
	})
}

// writeAging replaces a server's certificate by one that expires in a month.
func writeAging(t *testing.T, file string, by certificate.Authority) {
	t.Helper()
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
	t.Helper()
	block, _ := pem.Decode(text)
	certificate, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return certificate
}

// expiry is that of the certificate which the server shows.
func expiry(t *testing.T, spec launcher.Spec, end launcher.Endpoint) (at time.Time) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(end.CACertificate)
	db := openDB(t, spec, end, &tls.Config{RootCAs: roots, ServerName: end.Host,
		VerifyConnection: func(c tls.ConnectionState) error {
			at = c.PeerCertificates[0].NotAfter
			return nil
		}})
	defer db.Close() // it is called again and again
	require.NoError(t, db.PingContext(t.Context()))
	return at
}
