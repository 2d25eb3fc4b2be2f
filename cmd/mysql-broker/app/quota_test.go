package app

import (
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/shared"
	"mysql-broker/test/servers"
)

// Servers that are not measured have a time, at first the broker's start. Without a launcher, dedicated servers have
// none.
func TestWhenServersWereMeasured(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	s := servers.OpenStore(t, url)
	var configs []shared.Config
	for _, name := range []string{"measured", "never"} {
		configs = append(configs, shared.Config{Admin: mysqladmin.Config{Name: name, Addr: "127.0.0.1:1"}})
	}
	on, err := shared.Open(configs, []byte("key"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = on.Close() })
	for _, server := range []string{"measured", ""} {
		require.NoError(t, s.Usage.RecordMeasurement(ctx, server))
	}
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(ctx, `INSERT INTO instance (id, service_id, plan_id, state, dedicated_id, database_name, created_at)
		VALUES ('i', 's', 'p', 'ready', 'd_1', 'db_1', now() - '3 hours'::interval);
		INSERT INTO resource (kind, server, name, instance_id) VALUES ('dedicated server', '', 'd_1', 'i')`)
	require.NoError(t, err)
	start := time.Now()
	for _, c := range []struct {
		dedicated bool
		interval  time.Duration
		want      []string
	}{
		{false, time.Minute, []string{"measured", "never"}},
		{true, time.Minute, []string{"", "d_1", "measured", "never"}},
		{true, 2 * time.Hour, []string{"", "measured", "never"}},
	} {
		shown := measuredSeries(t, newQuotaCollector(s, on, c.dedicated, c.interval, nil, slog.New(slog.DiscardHandler)))
		got := slices.Sorted(maps.Keys(shown))
		assert.True(t, slices.Equal(got, c.want),
			"launcher: %t, interval %v: %q instead of %q", c.dedicated, c.interval, got, c.want)
		never := shown["never"]
		assert.False(t, never < float64(start.Unix()) || never > float64(time.Now().Unix()+1),
			"a server that was never measured shows %f, which is not the broker's start", never)
		at, old := shown["d_1"], float64(start.Add(-2*time.Hour).Unix())
		assert.False(t, at > old, "a dedicated server that was not measured for 3 hours shows %f", at)
	}
}

// measuredSeries are the times of measurements that a collector shows, by server.
func measuredSeries(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	require.NoError(t, err)
	shown := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "mysql_broker_quota_measurement_timestamp_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			shown[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
	}
	return shown
}
