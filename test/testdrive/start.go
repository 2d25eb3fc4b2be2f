package testdrive

import (
	"encoding/json"
	"mysql-broker/test/servers"
	"net"
	"testing"
)

// DeadServer is described like a server, but nothing listens there.
func DeadServer(t *testing.T, name string) map[string]any {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return Described(name, servers.MySQL{BrokerUser: "admin", BrokerPassword: "unused-password", Host: "127.0.0.1",
		Port: l.Addr().(*net.TCPAddr).Port})
}

// StartWith starts a broker with these shared servers and without a launcher.
func StartWith(t *testing.T, server servers.MySQL, shared ...map[string]any) Platform {
	t.Helper()
	text, err := json.Marshal(shared)
	if err != nil {
		t.Fatal(err)
	}
	env := Environment(t, server)
	env["MYSQL_SERVERS"], env["LAUNCHER"] = string(text), "none"
	return StartPlatform(t, server, env)
}

// EachPlatform runs a test with a broker on each flavour, in parallel. env is the broker's environment.
func EachPlatform(t *testing.T, run func(t *testing.T, p Platform, env map[string]string)) {
	t.Helper()
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		env := Environment(t, server)
		run(t, StartPlatform(t, server, env), env)
	})
}

// OnePlatform starts a broker, for what does not depend on the flavour.
func OnePlatform(t *testing.T) (Platform, map[string]string) {
	t.Helper()
	t.Parallel()
	server := servers.Any(t)
	env := Environment(t, server)
	return StartPlatform(t, server, env), env
}
