// Package groups breaks instances with three members on three real Kubernetes nodes, while applications write, and looks
// for every row that was acknowledged. It runs by `make kubernetes NODES=3`; GROUPS=long repeats each case as often as
// docs/ha.md reports it.
package groups

import (
	"testing"

	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/servers"
)

// onKubernetes is the cluster of all tests.
var onKubernetes cluster.Shared

func TestMain(m *testing.M) { servers.Main(m, onKubernetes.Close) }
