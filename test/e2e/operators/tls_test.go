package operators

import (
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// If an operator gives no CA, the log says what that means.
func TestNoCAIsWarnedOf(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	server.CA = ""
	p := testdrive.StartWith(t, server, testdrive.Described("unverified", server))
	p.AwaitLog(t, "the shared server offers TLS, but nothing verifies its certificate")
	_, c := p.Provisioned(t, "shared-small", nil).Bound(t, nil)
	c.Open(t)
}
