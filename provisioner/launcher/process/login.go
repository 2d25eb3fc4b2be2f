package process

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/launcher"
)

// loginTimeout limits how long a server that accepts connections but does not respond can delay a launch.
const loginTimeout = 10 * time.Second

// errRootOpen is returned for a server that lets root in without a password.
var errRootOpen = errors.New("root can log in without a password")

// probe tries to log in as root without a password through the server's socket. The server is up when it refuses the
// login: the launcher has no password to log in with.
func probe(ctx context.Context, sd serverDir) (up bool, err error) {
	if _, err := os.Lstat(filepath.Join(sd.dataDir(), socketName)); errors.Is(err, fs.ErrNotExist) {
		return false, nil // the usual case, kept cheap to leave the CPU to the starting server
	}
	dir, err := os.Open(sd.dataDir())
	if err != nil {
		return false, sd.explain(err)
	}
	defer dir.Close()
	cfg := socketLogin(dir)
	cfg.User = "root"
	var refused *mysql.MySQLError
	switch err := login(ctx, cfg); {
	case err == nil:
		return false, fmt.Errorf("server %s: %w", sd.id, errRootOpen)
	case errors.As(err, &refused):
		return true, nil
	}
	return false, nil
}

// socketLogin returns the configuration of a login through the socket in a data directory, which stays open.
func socketLogin(dataDir *os.File) *mysql.Config {
	cfg := mysql.NewConfig()
	cfg.Net = "unix"
	// This path fits into a socket address, however long the directory's own path is.
	cfg.Addr = fmt.Sprintf("/proc/self/fd/%d/%s", dataDir.Fd(), socketName)
	return cfg
}

// checkAdmin logs in as the server's admin account, as applications do: over TCP, with the certificate verified.
func (l *Launcher) checkAdmin(ctx context.Context, spec launcher.Spec, end launcher.Endpoint) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(end.CACertificate)
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd = spec.AdminUser, spec.AdminPassword
	cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(l.run.cfg.dialAddress(), strconv.Itoa(end.Port))
	cfg.TLS = &tls.Config{RootCAs: roots, ServerName: "localhost"}
	if err := login(ctx, cfg); err != nil {
		return fmt.Errorf("server %s: log in as its admin account: %w", spec.ID, err)
	}
	return nil
}

// dialAddress is the address by which this host connects to its own servers. It may be unable to reach Config.Host.
func (c Config) dialAddress() string {
	if ip := net.ParseIP(c.BindAddress); ip != nil && !ip.IsUnspecified() {
		return c.BindAddress
	}
	return "127.0.0.1"
}

func login(ctx context.Context, cfg *mysql.Config) error {
	cfg.Logger = &mysql.NopLogger{}
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = loginTimeout, loginTimeout, loginTimeout
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	return db.PingContext(ctx)
}
