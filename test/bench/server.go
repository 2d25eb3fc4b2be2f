package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	sharedserver "mysql-broker/deploy/shared-server"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/servers"
)

// server is a shared server as an operator would run it: durable, with a certificate and the settings of
// deploy/shared-server, and otherwise its defaults.
type server struct {
	servers.MySQL
	binary mysqld.Binary
}

// durableOptions turn on what protects committed data in a crash of the machine. By default, MariaDB has no binary log,
// and does not sync one.
// https://dev.mysql.com/doc/refman/9.7/en/replication-options-binary-log.html
// https://mariadb.com/docs/server/server-management/server-monitoring-logs/binary-log/replication-and-binary-log-system-variables
var durableOptions = []string{
	"--innodb-flush-log-at-trx-commit=1",
	"--innodb-doublewrite=ON",
	"--log-bin=binlog",
	"--server-id=1",
	"--sync-binlog=1",
}

// serverSettings are the settings that the figures depend on. If a value is given, the server must report it.
var serverSettings = map[string]string{
	"innodb_flush_log_at_trx_commit": "1",
	"innodb_doublewrite":             "ON",
	"log_bin":                        "ON",
	"sync_binlog":                    "1",
	"binlog_format":                  "",
	"innodb_buffer_pool_size":        "",
	"innodb_flush_method":            "",
	"performance_schema":             "",
}

// flavourOptions turn off listeners that nobody uses here, and a directory for files that need not exist.
var flavourOptions = map[string][]string{
	mysqld.MySQL: {"--mysqlx=0", "--secure-file-priv=NULL"},
}

// startServer returns when the server is up and has the broker's account.
func (b *bench) startServer(ctx context.Context, binary mysqld.Binary) (server, error) {
	s := server{binary: binary}
	u, err := b.makeServerDir(binary.Flavour)
	if err != nil {
		return s, err
	}
	if err := u.initialise(ctx, binary); err != nil {
		return s, err
	}
	ca, err := u.writeCertificate()
	if err != nil {
		return s, err
	}
	port, err := freePort()
	if err != nil {
		return s, err
	}
	exited, err := b.runServer(u, binary, port)
	if err != nil {
		return s, err
	}
	s.MySQL = servers.MySQL{Flavour: binary.Flavour, Host: "127.0.0.1", Port: port, User: "bench",
		Password: rand.Text(), CA: ca}
	if err := u.secure(ctx, s.MySQL, exited); err != nil {
		return s, err
	}
	s.MySQL, err = servers.WithBrokerAccount(ctx, s.MySQL)
	return s, err
}

// runServer starts mysqld, which ends with the bench in every case.
func (b *bench) runServer(u serverDir, binary mysqld.Binary, port int) (exited <-chan struct{}, err error) {
	options := []string{"--no-defaults", "--basedir=" + binary.BaseDir, "--datadir=" + u.data(), "--tmpdir=" + u.tmp(),
		"--socket=" + u.socket(), "--pid-file=" + filepath.Join(u.data(), "mysqld.pid"), "--port=" + strconv.Itoa(port),
		"--bind-address=127.0.0.1", "--ssl-ca=" + u.file("ca.pem"), "--ssl-cert=" + u.file("server.pem"),
		"--ssl-key=" + u.file("server.key")}
	options = append(append(options, durableOptions...), flavourOptions[binary.Flavour]...)
	settings, err := sharedserver.Settings(binary.Flavour)
	if err != nil {
		return nil, err
	}
	for _, line := range settings {
		options = append(options, "--"+line)
	}
	log, err := os.Create(u.file("mysqld.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(binary.Path, options...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = u.owner()
	return b.supervise(cmd)
}

// supervise starts a process, stops it with SIGTERM at the end of the bench, and reports when it has ended.
func (b *bench) supervise(cmd *exec.Cmd) (exited <-chan struct{}, err error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its log says how it ended
		close(done)
	}()
	b.atEnd(func(ctx context.Context) error { return terminate(ctx, cmd, done) })
	return done, nil
}

// terminate stops a process with SIGTERM, or kills it when ctx ends, and returns when it has ended.
func terminate(ctx context.Context, cmd *exec.Cmd, done <-chan struct{}) error {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		err := errors.Join(fmt.Errorf("%s did not end: %w", cmd.Path, ctx.Err()), cmd.Process.Kill())
		<-done
		return err
	}
}

// secure waits until the server is up, leaves no account without a password, and creates the administrator's account.
func (u serverDir) secure(ctx context.Context, s servers.MySQL, exited <-chan struct{}) error {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr = "root", "unix", u.socket()
	cfg.Logger = &mysql.NopLogger{} // it would log that the server is not up yet
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	if err := u.awaitUp(ctx, db, exited); err != nil {
		return err
	}
	statements := []string{
		"CREATE USER bench@'%' IDENTIFIED BY '" + s.Password + "'",
		"GRANT ALL PRIVILEGES ON *.* TO bench@'%' WITH GRANT OPTION",
		"ALTER USER root@localhost IDENTIFIED BY '" + rand.Text() + "'",
	}
	if s.Flavour == mysqld.MariaDB { // its installation leaves more accounts without a password, also anonymous ones
		statements = append(statements, "DELETE FROM mysql.global_priv WHERE user IN ('', 'root') AND "+
			"NOT (user = 'root' AND host = 'localhost')", "FLUSH PRIVILEGES")
	}
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("secure the accounts: %w", err)
		}
	}
	return nil
}

func (u serverDir) awaitUp(ctx context.Context, db *sql.DB, exited <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-exited:
			log, err := os.ReadFile(u.file("mysqld.log"))
			return errors.Join(fmt.Errorf("it ended; its log:\n%s", log), err)
		case <-ctx.Done():
			return fmt.Errorf("it does not come up: %w", err)
		case <-tick.C:
		}
	}
}

// connect opens a pool of connections as the broker's account, over TLS, of which n stay open. It prepares no
// statements: each takes one round trip.
func (s server) connect(n int) (*sql.DB, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(s.CA)) {
		return nil, errors.New("the CA holds no PEM certificate")
	}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd = s.BrokerUser, s.BrokerPassword
	cfg.Net, cfg.Addr = "tcp", s.Address()
	cfg.TLS = &tls.Config{RootCAs: roots, ServerName: s.Host, MinVersion: tls.VersionTLS12}
	cfg.InterpolateParams = true
	cfg.Logger = &mysql.NopLogger{} // errors are also returned
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

func (s server) describe(ctx context.Context) (serverDescription, error) {
	d := serverDescription{Name: s.Flavour, Settings: map[string]string{}}
	db, err := s.connect(1)
	if err != nil {
		return d, err
	}
	defer db.Close()
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&d.Version); err != nil {
		return d, err
	}
	for name := range serverSettings {
		var value string
		if err := db.QueryRowContext(ctx, "SHOW GLOBAL VARIABLES LIKE ?", name).Scan(&name, &value); err != nil {
			return d, fmt.Errorf("SHOW %s: %w", name, err)
		}
		d.Settings[name] = value
	}
	return d, d.check(serverSettings)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
