// Package connect runs what docs/connect.md tells developers to write, and what drivers make of credentials as they
// stand, with the drivers themselves. A driver that is not installed fails the tests.
package connect

import (
	"testing"

	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }
