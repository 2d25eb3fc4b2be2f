package app

import (
	"testing"

	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }
