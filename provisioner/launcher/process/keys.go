package process

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"mysql-broker/provisioner/launcher/certificate"
)

func (d serverDir) certificateFile() string { return filepath.Join(d.tlsDir(), "server.pem") }
func (d serverDir) keyFile() string         { return filepath.Join(d.tlsDir(), "server-key.pem") }

// writeKeys creates a server's keys and its certificate for that host. The keys stay for the server's lifetime; the
// certificate is renewed, see renew.go.
func (l *Launcher) writeKeys(sd serverDir, host string) error {
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
	if err := errors.Join(l.writeCertificate(begun, host), l.writeRSAKeys(begun)); err != nil {
		return fmt.Errorf("server %s: %w", sd.id, err)
	}
	if err := syncDir(begun.tlsDir()); err != nil {
		return err
	}
	if err := os.Rename(begun.tlsDir(), sd.tlsDir()); err != nil {
		return err
	}
	return errors.Join(os.Remove(begun.dir), syncDir(sd.dir))
}

func (l *Launcher) writeCertificate(sd serverDir, host string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	var trusted, leaf []byte
	if signs := l.signs.Load(); signs != nil {
		trusted = signs.Trusted
		leaf, err = signs.Sign(certificateName(sd), key.Public(), certificateHosts(host)...)
	} else if trusted, leaf, err = certificate.New(certificateName(sd), key, certificateHosts(host)...); err == nil {
		trusted = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: trusted})
	}
	if err != nil {
		return err
	}
	return errors.Join(
		writeSynced(sd.caFile(), trusted, 0o644),
		l.writePublic(sd.certificateFile(), "CERTIFICATE", leaf),
		l.writePrivate(sd.keyFile(), private))
}

func certificateName(sd serverDir) string { return "mysql " + sd.id }

func certificateHosts(host string) []string { return []string{host, "localhost", "127.0.0.1"} }

func (l *Launcher) writePublic(path, kind string, der []byte) error {
	return writeSynced(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o644)
}

// writePrivate writes a PKCS #8 key that only the servers' owner can read.
func (l *Launcher) writePrivate(path string, der []byte) error {
	return l.owner.writeSecret(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
