// Package model tests the compiled broker against a model of the Open Service Broker API: platforms send random
// requests to three replicas, while processes die and stand still and connections break. What the platforms were told
// must be what the model allows, and in the end what there is.
package model

import (
	"testing"

	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }
