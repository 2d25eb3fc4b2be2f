package mysqladmin

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// loginPatience is how long logins that are under way may take, which is a few round trips; servers allow
	// connect_timeout, 10 s, for each packet.
	loginPatience = 5 * time.Second

	loginPollInterval = 20 * time.Millisecond
)

// awaitLogins returns when the logins that began on some connections, to whatever account, have succeeded or failed.
// Those that have done neither within loginPatience are killed: a client that holds its answers back must not hold up
// the broker.
func (s *Session) awaitLogins(ctx context.Context, begun []connection) error {
	deadline := time.After(loginPatience)
	poll := time.NewTicker(loginPollInterval)
	defer poll.Stop()
	for len(begun) > 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for logins under way: %w", context.Cause(ctx))
		case <-deadline:
			return s.killEach(ctx, begun)
		case <-poll.C:
		}
		still, err := s.connections(ctx, connection.underWay)
		if err != nil {
			return err
		}
		begun = slices.DeleteFunc(begun, func(b connection) bool {
			return !slices.ContainsFunc(still, func(c connection) bool { return c.id == b.id })
		})
	}
	return nil
}
