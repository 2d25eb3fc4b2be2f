package process

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"mysql-broker/provisioner/launcher/certificate"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process/files"
)

func (d serverDir) certificateFile() string { return filepath.Join(d.tlsDir(), "server.pem") }
func (d serverDir) keyFile() string         { return filepath.Join(d.tlsDir(), "server-key.pem") }

// keys writes the keys and certificates of new servers.
type keys struct {
	cfg   Config
	owner files.Owner
	signs atomic.Pointer[certificate.Signer] // nil if each server has its own CA
}

// write creates a server's keys and its certificate for that host. The keys stay for the server's lifetime; the
// certificate is renewed, see renew.go.
func (k *keys) write(sd serverDir, host string) error {
	if _, err := os.Stat(sd.tlsDir()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	begun := serverDir{id: sd.id, dir: filepath.Join(sd.dir, "keys"+unfinished)}
	if err := os.RemoveAll(begun.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(begun.tlsDir(), traversable); err != nil {
		return err
	}
	if err := errors.Join(k.writeCertificate(begun, host), k.writeRSAKeys(begun)); err != nil {
		return sd.explain(err)
	}
	if err := files.SyncDir(begun.tlsDir()); err != nil {
		return err
	}
	if err := os.Rename(begun.tlsDir(), sd.tlsDir()); err != nil {
		return err
	}
	return errors.Join(os.Remove(begun.dir), files.SyncDir(sd.dir))
}

func (k *keys) writeCertificate(sd serverDir, host string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	var trusted, leaf []byte
	if signs := k.signs.Load(); signs != nil {
		trusted = signs.Trusted
		leaf, err = signs.Sign(certificateName(sd), key.Public(), certificateHosts(host)...)
	} else if trusted, leaf, err = certificate.New(certificateName(sd), key, certificateHosts(host)...); err == nil {
		trusted = certificate.PEM("CERTIFICATE", trusted)
	}
	if err != nil {
		return err
	}
	return errors.Join(
		files.Write(sd.caFile(), trusted, 0o644),
		files.Write(sd.certificateFile(), certificate.PEM("CERTIFICATE", leaf), 0o644),
		k.owner.WriteSecret(sd.keyFile(), certificate.PEM("PRIVATE KEY", private)))
}

func certificateName(sd serverDir) string { return "mysql " + sd.id }

func certificateHosts(host string) []string { return []string{host, "localhost", "127.0.0.1"} }

// rsaBits is the size of the keys that MySQL itself generates.
const rsaBits = 2048

func (d serverDir) rsaKeyFile() string       { return filepath.Join(d.tlsDir(), "rsa-key.pem") }
func (d serverDir) rsaPublicKeyFile() string { return filepath.Join(d.tlsDir(), "rsa.pem") }

// writeRSAKeys creates the keys that encrypt passwords on their way to MySQL when a client logs in without TLS.
// https://dev.mysql.com/doc/refman/8.4/en/caching-sha2-pluggable-authentication.html
func (k *keys) writeRSAKeys(sd serverDir) error {
	if k.cfg.Binary.Flavour != mysqld.MySQL {
		return nil
	}
	key, err := rsa.GenerateKey(rand.Reader, rsaBits)
	if err != nil {
		return fmt.Errorf("RSA key: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	public, failed := x509.MarshalPKIXPublicKey(key.Public())
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("RSA key: %w", err)
	}
	return errors.Join(
		files.Write(sd.rsaPublicKeyFile(), certificate.PEM("PUBLIC KEY", public), 0o644),
		k.owner.WriteSecret(sd.rsaKeyFile(), certificate.PEM("PRIVATE KEY", private)))
}

// rsaSettings returns the settings that name the keys to MySQL.
func rsaSettings(sd serverDir) []string {
	return []string{
		"loose-caching-sha2-password-auto-generate-rsa-keys=OFF",
		"caching-sha2-password-private-key-path=" + mysqld.Quote(sd.rsaKeyFile()),
		"caching-sha2-password-public-key-path=" + mysqld.Quote(sd.rsaPublicKeyFile()),
	}
}
