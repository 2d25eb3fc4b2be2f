package e2e

import (
	"net"
	"net/url"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// With ADDRESS set, the broker listens nowhere else.
func TestListensOnOneAddress(t *testing.T) {
	t.Parallel()
	env := testdrive.AnyEnvironment(t)
	delete(env, "PORT")
	env["ADDRESS"] = "127.0.0.1:0"
	p := testdrive.StartPlatform(t, servers.MySQL{}, env)
	p.Do(t, "GET", "/v2/catalog", nil).Expect(t, 200)
	at, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", "127.0.0.2:"+at.Port()); err == nil {
		conn.Close()
		t.Error("the broker listens on another address too")
	}
}
