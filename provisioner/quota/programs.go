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
	// programsTimeout bounds how long a shared server reads the stored programs of all databases, programTimeout how long
	// it reads those of one.
	programsTimeout = 20 * time.Second
	programTimeout  = 3 * time.Second
	// programsShare limits the load on the server: the guard waits at least this many times as long as the last reading
	// took before the next one.
	programsShare = 50
)

// programs is how many bytes the stored programs of a shared server's databases took when they were last read.
type programs struct {
	bytes   map[string]int64
	endless map[string]bool // databases whose programs alone cannot be read within programTimeout
	since   time.Time
	took    time.Duration
	err     error // why some or all are of an earlier reading
}

// programs reads the stored programs of a server, unless the last reading was too recent: see programsShare. If the
// server cannot read all databases in time, each is read by itself, so that one that takes too long does not keep the
// others from being measured.
func (g *Guard) programs(ctx context.Context, server *shared.Server, databases map[string]int64) programs {
	latest := g.readings[server.Name()].programs
	if time.Since(latest.since) < programsShare*latest.took {
		return latest
	}
	next := programs{since: time.Now()}
	limited, cancel := context.WithTimeout(ctx, 2*programsTimeout) // the server's own limit comes first
	next.bytes, next.err = server.Sizes.Programs(limited, programsTimeout)
	cancel()
	if next.err != nil && ctx.Err() == nil && server.Ping(ctx) == nil {
		next = g.eachProgram(ctx, server, databases, latest)
	}
	if next.bytes == nil {
		next.bytes, next.endless = latest.bytes, latest.endless
	}
	next.took = time.Since(next.since)
	g.readings[server.Name()].programs = next
	return next
}

// eachProgram reads the stored programs of one database after the other.
func (g *Guard) eachProgram(ctx context.Context, server *shared.Server, databases map[string]int64,
	latest programs) programs {
	var unknown error // why databases are counted by an earlier reading
	next := programs{since: time.Now(), bytes: maps.Clone(latest.bytes), endless: map[string]bool{}}
	if next.bytes == nil {
		next.bytes = map[string]int64{}
	}
	for name := range databases {
		limited, cancel := context.WithTimeout(ctx, 2*programTimeout)
		bytes, err := server.Sizes.ProgramsOf(limited, name, programTimeout)
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
