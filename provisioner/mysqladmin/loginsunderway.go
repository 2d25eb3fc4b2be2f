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

	// underWay is the condition, in the process list, of a session that has not logged in yet. Whose it will be,
	// the server does not tell.
	underWay = "user = 'unauthenticated user'"
)

// awaitLogins returns when the logins that are under way, to whatever account, have succeeded or failed. Those that
// have done neither within loginPatience are killed: a client that holds its answers back must not hold up the broker.
func (s *Session) awaitLogins(ctx context.Context) error {
	begun, err := s.connections(ctx, underWay)
	if err != nil {
		return fmt.Errorf("list logins under way: %w", err)
	}
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
		still, err := s.connections(ctx, underWay)
		if err != nil {
			return fmt.Errorf("list logins under way: %w", err)
		}
		begun = slices.DeleteFunc(begun, func(id int64) bool { return !slices.Contains(still, id) })
	}
	return nil
}
