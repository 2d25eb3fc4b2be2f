package main

import (
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) {
	testdrive.Main = run
	servers.Main(m)
}
