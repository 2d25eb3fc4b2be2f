package mysqlgroup

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"
)

const (
	// stallTime is how long a primary may commit nothing, while it lacks what another member has, before it counts as
	// stalled.
	stallTime = 10 * time.Second
	// silentTime is the same for a primary that accepts connections and lets nobody log in.
	silentTime = 30 * time.Second
)

// Stall is what a launcher remembers of a group to find a primary that is stalled. MySQL 9.7.4 may stop to commit on a
// new primary once other members have joined: all its sessions wait in wait_for_ticket_turn, for ever, while the others
// have applied what these have written. If one of them changes an account, nobody can log in any more. Nothing that was
// acknowledged is lost if the primary is killed.
// Operations and the supervision of a group share it.
type Stall struct {
	primary  int
	executed string // by the primary; empty if it lets nobody log in
	since    time.Time
}

// Suspect returns the primary of a group if it has committed nothing for stallTime although another member has other
// transactions, or has let nobody log in for silentTime, or -1. Unless it is Silent, it is stalled only if it
// LacksApplied: a member that lags has other transactions too. now is when the look began.
func (s *Stall) Suspect(all []Look, addresses []string, now time.Time) int {
	primary := led(all, addresses)
	if primary < 0 || s.since.IsZero() || primary != s.primary || all[primary].Executed != s.executed ||
		!slices.ContainsFunc(all, func(m Look) bool { return m.Online() && m.Executed != s.executed }) {
		s.primary, s.executed, s.since = primary, "", now
		if primary >= 0 {
			s.executed = all[primary].Executed
		}
		return -1
	}
	limit := stallTime
	if all[primary].Silent() {
		limit = silentTime
	}
	if now.Sub(s.since) < limit {
		return -1
	}
	return primary
}

// led returns the primary, also if only other members say so because it is Silent, or -1.
func led(all []Look, addresses []string) int {
	if primary := Primary(all); primary >= 0 {
		return primary
	}
	for n, m := range all {
		host, port, err := net.SplitHostPort(addresses[n])
		if err == nil && m.Silent() && slices.ContainsFunc(all, func(other Look) bool {
			return other.Online() && other.Leader == host+":"+port
		}) {
			return n
		}
	}
	return -1
}

// Silent reports whether a member accepts connections and lets nobody log in.
func (m Look) Silent() bool {
	dial, ok := errors.AsType[*net.OpError](m.Err)
	return errors.Is(m.Err, context.DeadlineExceeded) && !(ok && dial.Op == "dial")
}
