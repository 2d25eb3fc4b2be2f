// Package bench compares the broker with the same work without a broker, on the same servers and in turns.
// docs/benchmarks.md says how to run it and what the figures mean.
package bench

import (
	"flag"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

var mebibytes = flag.Int("mib", 100, "data of a database to copy or to back up, in MiB")

func TestMain(m *testing.M) {
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = slices.Max(atOnce) // as platforms keep theirs
	servers.Main(m)
}

// onEach runs fn as a benchmark on every mysqld that there is, or on one: see servers.Chosen.
func onEach(b *testing.B, fn func(b *testing.B, s servers.MySQL)) {
	b.Helper()
	for _, s := range servers.Chosen(b, servers.AllMySQL(b)) {
		b.Run(s.Flavour, func(b *testing.B) { fn(b, s) })
	}
}

// environment is that of testdrive, but with a PostgreSQL that syncs its commits.
func environment(b *testing.B, s servers.MySQL) map[string]string {
	b.Helper()
	env := testdrive.Environment(b, s)
	env["DATABASE_URL"] = testdrive.StartPostgres(b).URL
	return env
}

// compare measures both sides in turns, so that other load on the machine affects both. They take turns in being first.
// It reports the median of the ratios of all rounds. A round before these warms up.
func compare(b *testing.B, broker, raw func() time.Duration) {
	b.Helper()
	sides := []struct {
		measure func() time.Duration
		took    time.Duration // in this round
		all     []float64     // in milliseconds
	}{{measure: broker}, {measure: raw}}
	broker()
	raw()
	var ratios []float64
	for round := 0; b.Loop(); round++ {
		for i := range sides {
			side := &sides[(round+i)%len(sides)]
			side.took = side.measure()
			side.all = append(side.all, float64(side.took)/float64(time.Millisecond))
		}
		ratios = append(ratios, float64(sides[0].took)/float64(sides[1].took))
	}
	b.ReportMetric(0, "ns/op") // it would be the sum of both sides
	b.ReportMetric(median(sides[0].all), "broker-ms")
	b.ReportMetric(median(sides[1].all), "raw-ms")
	b.ReportMetric(median(ratios), "broker/raw")
}

func median(values []float64) float64 {
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 0 {
		return (values[middle-1] + values[middle]) / 2
	}
	return values[middle]
}

// timed makes a side of compare from what can fail.
func timed(b *testing.B, do func() error) func() time.Duration {
	return func() time.Duration {
		since := time.Now()
		require.NoError(b, do())
		return time.Since(since)
	}
}
