package app

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestCostlyCountsAreToldAgainForAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var bindings int64
		var takes time.Duration
		var fails error
		c := counter[store.Counts]{count: func(context.Context) (store.Counts, error) {
			time.Sleep(takes)
			return store.Counts{Bindings: bindings}, fails
		}}
		for i, step := range []struct {
			pause, takes time.Duration
			fails        error
			there, want  int64
		}{
			{0, time.Millisecond, nil, 1, 1},
			{0, time.Millisecond, nil, 2, 2},
			{0, time.Second, nil, 3, 3},
			{0, time.Second, nil, 4, 3},
			{50 * time.Second, time.Second, nil, 5, 3},
			{10 * time.Second, time.Second, errors.New("down"), 6, 6},
			{0, time.Second, nil, 7, 7},
			{time.Minute, time.Millisecond, nil, 8, 8},
			{0, time.Millisecond, nil, 9, 9},
		} {
			time.Sleep(step.pause)
			bindings, takes, fails = step.there, step.takes, step.fails
			counts, err := c.counts(t.Context())
			assert.True(t, counts.Bindings == step.want && errors.Is(err, step.fails),
				"step %d: %d bindings instead of %d, %v", i, counts.Bindings, step.want, err)
		}
	})
}

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
	testdrive.OpenTasks(t, map[string]string{"DATABASE_URL": url}).Exec(t, `INSERT INTO instance (id, service_id, plan_id, state, dedicated_id, database_name, created_at)
		VALUES ('i', 's', 'p', 'ready', 'd_1', 'db_1', now() - '3 hours'::interval);
		INSERT INTO resource (kind, server, name, instance_id) VALUES ('dedicated server', '', 'd_1', 'i')`)
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
		shown := map[string]float64{}
		collector := newQuotaCollector(s, on, c.dedicated, c.interval, nil, slog.New(slog.DiscardHandler))
		for series, at := range gathered(t, collector) {
			if server, ok := strings.CutPrefix(series, "mysql_broker_quota_measurement_timestamp_seconds "); ok {
				shown[server] = at
			}
		}
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

// gathered returns the gauges that a collector exports, by their names and the values of their labels.
func gathered(t *testing.T, c prometheus.Collector) map[string]float64 {
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	require.NoError(t, err)
	shown := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			series := f.GetName()
			for _, label := range m.GetLabel() {
				series += " " + label.GetValue()
			}
			shown[series] = m.GetGauge().GetValue()
		}
	}
	return shown
}

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
	c := troubleCollector{all, slog.New(slog.DiscardHandler)}
	prometheus.NewRegistry().MustRegister(c)
	assert.False(t, asked.Load(), "a launcher was asked before the first scrape")
	want := map[string]float64{}
	for trouble, n := range map[string]float64{"node-lost": 2, "evicted": 0, "out-of-memory": 0, "volume-full": 0,
		"crashing": 0, "not-ready": 0, "no-image": 0, "no-node": 0, "no-pod": 0} {
		want["mysql_broker_dedicated_servers_in_trouble east "+trouble] = n
	}
	assert.Equal(t, want, gathered(t, c))
}

// Concurrent requests to /metrics or /readyz query the servers once. A later request queries them again.
func TestAskedTogether(t *testing.T) {
	for _, path := range []string{"/metrics", "/readyz"} {
		synctest.Test(t, func(t *testing.T) {
			answer := make(chan struct{})
			s := slowSource{answer: answer}
			registry := prometheus.NewRegistry()
			registry.MustRegister(&s)
			served := routes(nil, registry, func() (readiness, error) {
				s.ask()
				return readiness{Status: "ok"}, nil
			}, nil)
			ask := func() {
				w := httptest.NewRecorder()
				served.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
				assert.True(t, w.Code == http.StatusOK && w.Body.Len() != 0, "%s answers %d: %s", path, w.Code, w.Body)
			}
			var all sync.WaitGroup
			for range 20 {
				all.Go(ask)
			}
			synctest.Wait()
			close(answer)
			all.Wait()
			assert.Equal(t, 1, s.asked, "%s: asked %d times at once", path, s.asked)
			ask()
			assert.Equal(t, 2, s.asked, "%s: asked %d times in all", path, s.asked)
		})
	}
}

// slowSource collects a metric that takes until answer is closed.
type slowSource struct {
	answer chan struct{}
	mu     sync.Mutex
	asked  int
}

func (s *slowSource) ask() {
	s.mu.Lock()
	s.asked++
	s.mu.Unlock()
	<-s.answer
}

func (s *slowSource) Describe(ch chan<- *prometheus.Desc) { ch <- orphansDesc }

func (s *slowSource) Collect(ch chan<- prometheus.Metric) {
	s.ask()
	gauge(ch, orphansDesc, 1, "a", "b")
}
