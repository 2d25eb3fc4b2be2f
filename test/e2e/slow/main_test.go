// Package slow tests the compiled broker where that takes minutes: disks get full, servers hang, and upgrades fail.
package slow

import (
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

type body = testdrive.Body

func TestMain(m *testing.M) { servers.Main(m) }
