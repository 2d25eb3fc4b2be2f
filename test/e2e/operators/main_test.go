// Package operators tests what operators do and see, with the compiled broker: commands, the dashboard, upgrades,
// rotation, moves, and what follows when brokers, servers or PostgreSQL fail meanwhile.
package operators

import (
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

type body = testdrive.Body

func TestMain(m *testing.M) { servers.Main(m) }
