package bench

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
)

var (
	atOnce     = []int{1, 8, 32} // of BenchmarkCycles
	operations = []struct {
		name string
		do   func(tenant) error
	}{{"provision", tenant.provision}, {"bind", tenant.bind}, {unbind, tenant.unbind}, {"deprovision", tenant.deprovision}}
)

const (
	unbind         = "unbind"
	cyclesOfClient = 4 // in a round of BenchmarkCycles
)

// BenchmarkOperations compares how long one client waits for each operation.
func BenchmarkOperations(b *testing.B) {
	onEach(b, func(b *testing.B, s servers.MySQL) {
		through, without := newTenants(b, s, 1)
		for _, o := range operations {
			b.Run(o.name, func(b *testing.B) { compareOperation(b, o.name, through[0], without[0]) })
		}
		b.Run("unbind_with_session", func(b *testing.B) {
			compareOperation(b, unbind, &visited{tenant: through[0], ctx: b.Context()},
				&visited{tenant: without[0], ctx: b.Context()})
		})
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
	errs := make([]error, len(tenants))
	var all sync.WaitGroup
	for i, who := range tenants {
		all.Go(func() { errs[i] = live(who) })
	}
	all.Wait()
	return errors.Join(errs...)
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
