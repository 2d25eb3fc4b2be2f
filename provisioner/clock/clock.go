// Package clock compares PostgreSQL's clock, which says how old things are, with other clocks before anything is
// destroyed for its age. A standby that was promoted, or a machine that was resumed, may be weeks ahead for a minute.
package clock

import (
	"context"
	"fmt"
	"time"

	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// readTime limits how long the clock of one shared server is waited for.
const readTime = 5 * time.Second

// Error says that clocks are more than store.ClockTolerance apart, so that it is not known how old anything is.
type Error struct {
	Other string        // whose clock was compared with PostgreSQL's
	Ahead time.Duration // of PostgreSQL's clock; negative if it is behind
}

func (e *Error) Error() string {
	direction := "ahead of"
	if e.Ahead < 0 {
		direction = "behind"
	}
	return fmt.Sprintf("PostgreSQL's clock is %s %s that of %s, so nothing is destroyed for its age: "+
		"set the clock that is wrong", e.Ahead.Abs().Round(time.Minute), direction, e.Other)
}

// Compare returns nil if PostgreSQL's clock agrees with this host's and, if any shared server answers, with that of one
// of them. If it does not, the error is an *Error; otherwise it is that of reading PostgreSQL's clock.
func Compare(ctx context.Context, s *store.Store, servers *shared.Servers) error {
	postgres, err := s.Clock(ctx)
	if err != nil {
		return fmt.Errorf("read PostgreSQL's clock: %w", err)
	}
	read := time.Now()
	if ahead := postgres.Sub(read); ahead.Abs() > store.ClockTolerance {
		return &Error{"this host", ahead}
	}
	var wrong *Error
	for _, server := range servers.All() {
		at, err := now(ctx, server)
		if err != nil {
			continue // a server that does not answer says nothing about the time
		}
		ahead := postgres.Add(time.Since(read)).Sub(at)
		if ahead.Abs() <= store.ClockTolerance {
			return nil
		}
		wrong = &Error{"the shared server " + server.Name(), ahead}
	}
	if wrong != nil {
		return wrong
	}
	return ctx.Err()
}

func now(ctx context.Context, server *shared.Server) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	return server.Clock(ctx)
}
