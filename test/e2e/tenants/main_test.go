// Package tenants tests the limits of what tenants can do, with the compiled broker: how many instances and bindings
// they get, how much data, and what they can send and set.
package tenants

import (
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

type body = testdrive.Body

func TestMain(m *testing.M) {
	servers.Main(m)
}
