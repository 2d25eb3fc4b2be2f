// Package e2e tests the compiled broker as platforms see it: the API, and one happy path of each operation. What tenants
// try, what becomes of their data, and what operators do is in the packages below, where brokers also are killed and
// paused, and race: these tests are called TestFault….
package e2e

import (
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

type body = testdrive.Body

func TestMain(m *testing.M) {
	servers.Main(m)
}
