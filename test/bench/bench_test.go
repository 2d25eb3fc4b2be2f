// Package bench compares the broker with the same work without a broker, on the same servers and in turns.
// docs/benchmarks.md says how to run it and what the figures mean.
package bench

import (
	"flag"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

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
	for _, s := range servers.Chosen(b, servers.AllMySQL(b)) {
		b.Run(s.Flavour, func(b *testing.B) { fn(b, s) })
	}
}

// environment is that of testdrive, but with a PostgreSQL that syncs its commits.
func environment(b *testing.B, s servers.MySQL) map[string]string {
	env := testdrive.Environment(b, s)
	env["DATABASE_URL"] = testdrive.StartPostgres(b).URL
	return env
}

// compare measures both sides in turns, so that other load on the machine affects both. They take turns in being first.
// It reports the median of the ratios of all rounds. A round before these warms up.
func compare(b *testing.B, broker, raw func() time.Duration) {
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

var (
	atOnce     = []int{1, 8, 32} // of BenchmarkCycles
	operations = []struct {
		name string
		do   func(tenant) error
	}{{"provision", tenant.provision}, {"bind", tenant.bind}, {"unbind", tenant.unbind}, {"deprovision", tenant.deprovision}}
)

const cyclesOfClient = 4 // in a round of BenchmarkCycles

// BenchmarkOperations compares how long one client waits for each operation.
func BenchmarkOperations(b *testing.B) {
	onEach(b, func(b *testing.B, s servers.MySQL) {
		through, without := newTenants(b, s, 1)
		for _, o := range operations {
			b.Run(o.name, func(b *testing.B) { compareOperation(b, o.name, through[0], without[0]) })
		}
	})
}

// compareOperation compares one of the operations of whole lives.
func compareOperation(b *testing.B, name string, through, without tenant) {
	side := func(who tenant) func() time.Duration {
		return func() (took time.Duration) {
			for _, o := range operations {
				since := time.Now()
				require.NoError(b, o.do(who), o.name)
				if o.name == name {
					took = time.Since(since)
				}
			}
			return took
		}
	}
	compare(b, side(through), side(without))
}

// BenchmarkCycles compares how long it takes until each of several clients has provisioned, bound, unbound and
// deprovisioned some instances, one after the other.
func BenchmarkCycles(b *testing.B) {
	onEach(b, func(b *testing.B, s servers.MySQL) {
		for _, n := range atOnce {
			b.Run(fmt.Sprintf("clients=%d", n), func(b *testing.B) {
				through, without := newTenants(b, s, n)
				compare(b, timed(b, func() error { return liveTogether(through) }),
					timed(b, func() error { return liveTogether(without) }))
			})
		}
	})
}

func liveTogether(tenants []tenant) error {
	var all errgroup.Group
	for _, who := range tenants {
		all.Go(func() error { return live(who) })
	}
	return all.Wait()
}

func live(who tenant) error {
	for range cyclesOfClient {
		for _, o := range operations {
			if err := o.do(who); err != nil {
				return fmt.Errorf("%s: %w", o.name, err)
			}
		}
	}
	return nil
}
