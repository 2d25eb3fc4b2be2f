package process

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"mysql-broker/provisioner/launcher/mysqld"
)

// rsaBits is the size of the keys that MySQL itself generates.
const rsaBits = 2048

func (d serverDir) rsaKeyFile() string       { return filepath.Join(d.tlsDir(), "rsa-key.pem") }
func (d serverDir) rsaPublicKeyFile() string { return filepath.Join(d.tlsDir(), "rsa.pem") }

// writeRSAKeys creates the keys that encrypt passwords on their way to MySQL when a client logs in without TLS.
// https://dev.mysql.com/doc/refman/8.4/en/caching-sha2-pluggable-authentication.html
func (l *Launcher) writeRSAKeys(sd serverDir) error {
	if l.cfg.Binary.Flavour != mysqld.MySQL {
		return nil
	}
	key, err := rsa.GenerateKey(rand.Reader, rsaBits)
	if err != nil {
		return fmt.Errorf("RSA key: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("RSA key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("RSA key: %w", err)
	}
	return errors.Join(
		l.writePublic(sd.rsaPublicKeyFile(), "PUBLIC KEY", public),
		l.writePrivate(sd.rsaKeyFile(), private))
}

// rsaSettings returns the settings that name the keys to MySQL. Servers created before the broker made such keys
// generate their own in their data directories.
func rsaSettings(sd serverDir) []string {
	if _, err := os.Stat(sd.rsaKeyFile()); err != nil {
		return nil
	}
	return []string{
		"loose-caching-sha2-password-auto-generate-rsa-keys=OFF",
		"caching-sha2-password-private-key-path=" + mysqld.Quote(sd.rsaKeyFile()),
		"caching-sha2-password-public-key-path=" + mysqld.Quote(sd.rsaPublicKeyFile()),
	}
}
