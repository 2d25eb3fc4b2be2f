package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"mysql-broker/provisioner/launcher/mysqld"
)

// serverDir is the directory with all files of a server. It belongs to the user that the server runs as.
type serverDir struct {
	dir      string
	uid, gid int
}

func (u serverDir) file(name string) string { return filepath.Join(u.dir, name) }
func (u serverDir) data() string            { return u.file("data") }
func (u serverDir) tmp() string             { return u.file("tmp") }
func (u serverDir) socket() string          { return u.file("mysqld.sock") }

func (b *bench) makeServerDir(name string) (serverDir, error) {
	dir, err := os.MkdirTemp(b.dir, name+"-")
	if err != nil {
		return serverDir{}, err
	}
	u := serverDir{dir: dir, uid: os.Geteuid(), gid: os.Getegid()}
	if u.uid == 0 { // mysqld refuses to run as root
		nobody, err := user.Lookup("nobody")
		if err != nil {
			return u, err
		}
		if u.uid, err = strconv.Atoi(nobody.Uid); err != nil {
			return u, err
		}
		if u.gid, err = strconv.Atoi(nobody.Gid); err != nil {
			return u, err
		}
	}
	if err := os.Mkdir(u.tmp(), 0o700); err != nil {
		return u, err
	}
	for _, dir := range []string{u.dir, u.tmp()} {
		if err := os.Chown(dir, u.uid, u.gid); err != nil {
			return u, err
		}
	}
	return u, nil
}

// owner starts a process as the directory's owner. A terminal's Ctrl-C does not reach it; it dies with the bench.
func (u serverDir) owner() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		attributes.Credential = &syscall.Credential{Uid: uint32(u.uid), Gid: uint32(u.gid)}
	}
	return attributes
}

// initialise creates the data directory. Its root account has no password, and is reachable only through the socket's
// directory.
func (u serverDir) initialise(ctx context.Context, binary mysqld.Binary) error {
	command := []string{binary.Path, "--no-defaults", "--initialize-insecure"}
	if binary.Flavour == mysqld.MariaDB {
		command = []string{filepath.Join(binary.BaseDir, "bin", "mariadb-install-db"), "--no-defaults",
			"--auth-root-authentication-method=normal", "--skip-test-db"}
	}
	command = append(command, "--basedir="+binary.BaseDir, "--datadir="+u.data(), "--tmpdir="+u.tmp())
	command = append(command, flavourOptions[binary.Flavour]...)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = u.dir
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "TMPDIR=" + u.tmp()}
	cmd.SysProcAttr = u.owner()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make a data directory: %w\n%s", err, out)
	}
	return nil
}

// writeCertificate gives the server a certificate for 127.0.0.1, and returns the CA's, in PEM.
func (u serverDir) writeCertificate() (ca string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	certificate := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, certificate, certificate, key.Public(), key)
	if err != nil {
		return "", err
	}
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, content := range map[string][]byte{"ca.pem": chain, "server.pem": chain,
		"server.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})} {
		if err := os.WriteFile(u.file(name), content, 0o600); err != nil {
			return "", err
		}
		if err := os.Chown(u.file(name), u.uid, u.gid); err != nil {
			return "", err
		}
	}
	return string(chain), nil
}
