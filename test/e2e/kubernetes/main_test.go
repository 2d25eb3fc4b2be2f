// Package kubernetes tests the compiled broker with dedicated servers on Kubernetes.
package kubernetes

import (
	"testing"

	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// onKubernetes is the cluster of all tests.
var onKubernetes cluster.Shared

type body = testdrive.Body

func TestMain(m *testing.M) {
	servers.Main(m, onKubernetes.Close)
}
