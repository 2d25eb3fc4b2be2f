package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/shared"
)

const (
	// programsTimeout bounds how long a shared server reads the stored programs of all databases, and programTimeout
	// those of one.
	programsTimeout = 20 * time.Second
	programTimeout  = 3 * time.Second
	// programsShare is how many times longer than such a look took the guard waits before the next, at least.
	programsShare = 50
)

// programs are what the stored programs of a shared server's databases took when they were last looked at.
type programs struct {
	bytes   map[string]int64
	endless map[string]bool // databases whose programs alone cannot be read within programTimeout
	since   time.Time
	took    time.Duration
	err     error // why all are of an earlier time
}

// programs looks again, unless the last look took so long that it is too early for that. Where the server does not get
// through all databases, each is looked at by itself: one that takes too long for that keeps nobody else from being
// measured.
func (g *Guard) programs(ctx context.Context, server *shared.Server, databases map[string]int64) programs {
	g.mu.Lock()
	latest := g.stored[server.Name()]
	g.mu.Unlock()
	if time.Since(latest.since) < programsShare*latest.took {
		return latest
	}
	next := programs{since: time.Now()}
	limited, cancel := context.WithTimeout(ctx, 2*programsTimeout) // the server's own limit comes first
	next.bytes, next.err = server.ProgramSizes(limited, programsTimeout)
	cancel()
	if next.err != nil && ctx.Err() == nil && server.Ping(ctx) == nil {
		next = g.eachProgram(ctx, server, databases, latest)
	}
	if next.bytes == nil {
		next.bytes, next.endless = latest.bytes, latest.endless
	}
	next.took = time.Since(next.since)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stored[server.Name()] = next
	return next
}

// eachProgram looks at each database by itself.
func (g *Guard) eachProgram(ctx context.Context, server *shared.Server, databases map[string]int64,
	latest programs) programs {
	var unknown error // of those that are counted as they were before
	next := programs{since: time.Now(), bytes: maps.Clone(latest.bytes), endless: map[string]bool{}}
	if next.bytes == nil {
		next.bytes = map[string]int64{}
	}
	for name := range databases {
		limited, cancel := context.WithTimeout(ctx, 2*programTimeout)
		bytes, err := server.ProgramSize(limited, name, programTimeout)
		cancel()
		if err == nil {
			next.bytes[name] = bytes
			continue
		}
		if ctx.Err() != nil || mysqladmin.Unreachable(err) && server.Ping(ctx) != nil {
			next.err = err
			return next
		}
		if mysqladmin.TimedOut(err) {
			next.endless[name] = true
		} else {
			unknown = errors.Join(unknown, fmt.Errorf("stored programs of %s: %w", name, err))
		}
	}
	next.err = unknown
	return next
}
