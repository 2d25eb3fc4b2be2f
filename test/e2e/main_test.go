// Package e2e tests the compiled broker from outside: as platforms see it in api_*_test.go, and as operators do in
// ops_*_test.go. In fault_*_test.go brokers are killed and paused, and race: these tests are called TestFault…
package e2e

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
