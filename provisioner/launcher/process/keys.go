package process

import (
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
	if err := errors.Join(l.writeCertificate(begun, host), l.writeRSAKeys(begun)); err != nil {
		return fmt.Errorf("server %s: %w", inst.id, err)
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

func (l *Launcher) writePublic(path, kind string, der []byte) error {
	return writeSynced(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o644)
}

// writePrivate writes a PKCS #8 key that the servers' owner alone can read.
func (l *Launcher) writePrivate(path string, der []byte) error {
	return l.owner.writeSecret(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
