// Package e2e tests the compiled broker from outside: as platforms see it in api_*_test.go, and as operators do in
// ops_*_test.go.
package e2e

import (
	"testing"

	kubernetes "mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// onKubernetes is the cluster of the tests that need one.
var onKubernetes kubernetes.Shared

func TestMain(m *testing.M) {
	testdrive.LaunchOnDisk()
	servers.Main(m, onKubernetes.Close)
}
