// Package e2e tests the compiled broker from outside: as platforms see it in api_*_test.go, and as operators do in
// ops_*_test.go.
package e2e

import (
	"testing"

	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }
