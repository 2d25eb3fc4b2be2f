package app

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
)

type observer struct {
	launcher.Launcher // what the test does not call is not there
	troubles          map[string]launcher.Trouble
	err               error
	asked             *atomic.Bool
}

func (o observer) Troubles(context.Context) (map[string]launcher.Trouble, error) {
	if o.asked != nil {
		o.asked.Store(true)
	}
	return o.troubles, o.err
}

// The collector counts troubles by kind, also 0, without launchers that cannot see any or cannot be reached. A broker
// that starts registers it without asking them, which may take seconds.
func TestTroubleCollector(t *testing.T) {
	t.Parallel()
	var asked atomic.Bool
	all := map[string]launcher.Launcher{
		"east":  observer{troubles: map[string]launcher.Trouble{"a": launcher.NodeLost, "b": launcher.NodeLost}},
		"west":  observer{err: errors.New("no answer"), asked: &asked},
		"plain": struct{ launcher.Launcher }{},
	}
	r := prometheus.NewRegistry()
	r.MustRegister(troubleCollector{all, slog.New(slog.DiscardHandler)})
	assert.False(t, asked.Load(), "a launcher was asked before the first scrape")
	families, err := r.Gather()
	require.True(t, err == nil && len(families) == 1, "%d families, %v", len(families), err)
	got := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		got[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetGauge().GetValue()
	}
	want := map[string]float64{"east node-lost": 2, "east evicted": 0, "east out-of-memory": 0, "east volume-full": 0,
		"east crashing": 0, "east not-ready": 0,
		"east no-image": 0, "east no-node": 0}
	if families[0].GetName() != "mysql_broker_dedicated_servers_in_trouble" || !maps.Equal(got, want) {
		t.Errorf("%s is %v, want %v", families[0].GetName(), got, want)
	}
}
