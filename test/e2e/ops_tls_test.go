package e2e

import (
	"testing"

	"mysql-broker/test/servers"
)

// If an operator gives no CA, the log says what that means.
func TestNoCAIsWarnedOf(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, server servers.MySQL) {
		server.CA = ""
		p := startWith(t, server, described("unverified", server))
		p.AwaitLog(t, "the shared server offers TLS, but nothing verifies its certificate")
		_, c := p.provisioned(t, "shared-small", nil).bound(t, nil)
		checkAliases(t, c)
		c.open(t)
	})
}
