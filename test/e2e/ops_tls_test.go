package e2e

import (
	"testing"

	"mysql-broker/test/servers"
)

// An operator who gives no CA is told what it means.
func TestNoCAIsWarnedOf(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		server.CA = ""
		p := startWith(t, server, described("unverified", server))
		p.AwaitLog(t, "the shared server offers TLS, but nothing verifies its certificate")
		_, c := p.provisioned(t, "shared-small", nil).bound(t, nil)
		checkAliases(t, c)
		c.open(t)
	})
}
