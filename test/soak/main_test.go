// Package soak keeps brokers busy and looks for what piles up in them. The tests of this package do not run side by side.
package soak

import (
	"testing"

	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }
