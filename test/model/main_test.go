// Package model tests the compiled broker against a model of the Open Service Broker API: platforms send random
// requests to three replicas, while processes die and stand still and connections break. What the platforms were told
// must be what the model allows, and in the end what there is.
package model

import (
	"testing"

	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/servers"
)

// onKubernetes is the cluster in which dedicated servers run if CHAOS_LAUNCHER is kubernetes.
var onKubernetes cluster.Shared

func TestMain(m *testing.M) { servers.Main(m, onKubernetes.Close) }
