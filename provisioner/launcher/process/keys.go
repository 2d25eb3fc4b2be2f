package process

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func (i instance) certificateFile() string { return filepath.Join(i.tlsDir(), "server.pem") }
func (i instance) keyFile() string         { return filepath.Join(i.tlsDir(), "server-key.pem") }
func (i instance) passwordKeyFile() string { return filepath.Join(i.tlsDir(), "password-key.pem") }
func (i instance) passwordPublicKeyFile() string {
	return filepath.Join(i.tlsDir(), "password-public-key.pem")
}

// writeKeys gives a server its certificate, for that host, and keys, once for all its life: clients trust the
// certificate's CA.
func (l *Launcher) writeKeys(inst instance, host string) error {
	if _, err := os.Stat(inst.tlsDir()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	begun := instance{id: inst.id, dir: filepath.Join(inst.dir, "keys"+unfinished)}
	if err := os.RemoveAll(begun.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(begun.tlsDir(), traversable); err != nil {
		return err
	}
	if err := l.writeCertificate(begun, host); err != nil {
		return fmt.Errorf("server %s: %w", inst.id, err)
	}
	if l.cfg.Binary.Flavour == MySQL {
		if err := l.writePasswordKeys(begun); err != nil {
			return fmt.Errorf("server %s: %w", inst.id, err)
		}
	}
	if err := syncDir(begun.tlsDir()); err != nil {
		return err
	}
	if err := os.Rename(begun.tlsDir(), inst.tlsDir()); err != nil {
		return err
	}
	return errors.Join(os.Remove(begun.dir), syncDir(inst.dir))
}

func (l *Launcher) writeCertificate(inst instance, host string) error {
	cert, err := newCertificate("mysql "+inst.id, host, "localhost", "127.0.0.1")
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.key)
	if err != nil {
		return err
	}
	return errors.Join(
		l.writePublic(inst.caFile(), "CERTIFICATE", cert.ca),
		l.writePublic(inst.certificateFile(), "CERTIFICATE", cert.leaf),
		l.writePrivate(inst.keyFile(), key))
}

// writePasswordKeys makes the RSA pair with which clients that do not use TLS encrypt their password to MySQL.
// The server would make one itself, in half a second.
// https://dev.mysql.com/doc/refman/8.4/en/caching-sha2-pluggable-authentication.html
func (l *Launcher) writePasswordKeys(inst instance) error {
	pair, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(pair.Public())
	if err != nil {
		return err
	}
	return errors.Join(
		l.writePrivate(inst.passwordKeyFile(), key),
		l.writePublic(inst.passwordPublicKeyFile(), "PUBLIC KEY", public))
}

func (l *Launcher) writePublic(path, kind string, der []byte) error {
	return writeSynced(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o644)
}

// writePrivate writes a PKCS #8 key that the servers' owner alone can read.
func (l *Launcher) writePrivate(path string, der []byte) error {
	return l.owner.writeSecret(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
