// Package slow tests the compiled broker where that takes minutes: disks get full, servers and networks hang, clocks jump,
// clients are slow, and servers are upgraded in every way.
package slow

import (
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

type body = testdrive.Body

func TestMain(m *testing.M) {
	testdrive.LaunchOnDisk()
	servers.Main(m)
}
