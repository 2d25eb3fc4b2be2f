package testdrive

import (
	"database/sql"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	sharedserver "mysql-broker/deploy/shared-server"
	"mysql-broker/test/servers"
)

// PrivateWithDefaults starts a MySQL server with the settings that it has of itself, such as a performance schema, and
// without TLS that can be verified. No other test uses it, and it is gone when the test ends.
func PrivateWithDefaults(t testing.TB) servers.MySQL {
	t.Helper()
	binary := binaryOf(t, "mysql")
	dir, err := os.MkdirTemp("", "mb") // as short as a socket's path has to be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	s := servers.MySQL{Flavour: "mysql", Host: "127.0.0.1", Port: FreePort(t), User: "root_of_test",
		Password: "a-private-password"}
	s.BrokerUser, s.BrokerPassword = sharedserver.Account, "a-brokers-password"
	statements, err := sharedserver.Statements(s.Flavour, s.BrokerPassword)
	if err != nil {
		t.Fatal(err)
	}
	statements = append(statements, "CREATE USER "+s.User+"@'%' IDENTIFIED BY '"+s.Password+"'",
		"GRANT ALL PRIVILEGES ON *.* TO "+s.User+"@'%' WITH GRANT OPTION", "ALTER USER root@localhost ACCOUNT LOCK")
	first := filepath.Join(dir, "first.sql")
	if err := os.WriteFile(first, []byte(strings.Join(statements, ";\n")+";\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(options ...string) *exec.Cmd {
		return exec.Command(binary.Path, append([]string{"--no-defaults", "--user=" + me.Username,
			"--basedir=" + binary.BaseDir, "--datadir=" + filepath.Join(dir, "data"),
			"--log-error=" + filepath.Join(dir, "log")}, options...)...)
	}
	if out, err := run("--initialize-insecure", "--init-file="+first).CombinedOutput(); err != nil {
		t.Fatalf("initialize MySQL: %v: %s", err, out)
	}
	cmd := run("--socket="+filepath.Join(dir, "s"), "--bind-address=127.0.0.1", "--port="+strconv.Itoa(s.Port),
		"--mysqlx=0", "--secure-file-priv=NULL", "--log-bin-trust-function-creators=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.Passwd, cfg.TLSConfig = "tcp", s.Address(), s.User, s.Password, "preferred"
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	root := sql.OpenDB(connector)
	defer root.Close()
	Eventually(t, startTime, "MySQL takes connections", func() bool { return root.PingContext(t.Context()) == nil })
	return s
}
