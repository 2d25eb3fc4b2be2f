package mysqlgroup

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// stuckTime is for how long a member may take no part in its group, although it runs and is to join, without getting
	// any further.
	stuckTime = time.Minute
	// stuckMost bounds that time, which doubles each time: one transaction may take longer to apply.
	stuckMost = 8 * time.Hour
	// abreastTime is how far a member may lag that applies transactions only because the others go on to write.
	abreastTime = 10 * time.Second
)

// Stuck is what a launcher remembers of the members of a group to find one that hangs. On a busy machine, MySQL 9.7.4
// may never leave the state RECOVERING after it was killed: its applier waits in wait_for_ticket_turn with transactions
// that it has executed already. Or it lets nobody log in. Once started again, such a member joins within seconds.
// Nothing that was acknowledged is lost if it is killed. See Stall for the primary.
type Stuck struct {
	members map[int]*attempt
}

// attempt is what a member has done to join its group.
type attempt struct {
	stage string
	since time.Time // it has got no further
	limit time.Duration

	got    string // how far it had got at a time
	newest uint64 // how many transactions the group had then
	at     time.Time
}

// Next returns a member, counted from 0, that hangs, or -1. at is when the look began. A member that lets nobody log in
// hangs only if another one is online: else it may be the broker that takes too long.
func (s *Stuck) Next(all []Look, addresses []string, at time.Time) int {
	if s.members == nil {
		s.members = map[int]*attempt{}
	}
	var newest uint64
	for _, m := range all {
		if m.Online() {
			newest = max(newest, transactions(m.Executed))
		}
	}
	next := -1
	for n, m := range all {
		if m.Online() {
			delete(s.members, n)
			continue
		}
		a := s.members[n]
		if a == nil {
			a = &attempt{limit: stuckTime}
			s.members[n] = a
		}
		stage := m.stage(Known(all, addresses[n]))
		switch {
		case stage == "" || stage != a.stage || m.Silent() && CountOnline(all) == 0:
			*a = attempt{stage: stage, since: at, limit: a.limit, got: m.got(), newest: newest, at: at}
		case at.Sub(a.at) >= abreastTime:
			if m.got() != a.got && transactions(m.Executed) < a.newest {
				a.since = at
			}
			a.got, a.newest, a.at = m.got(), newest, at
		}
		if stage != "" && next < 0 && at.Sub(a.since) >= a.limit {
			next, a.since, a.limit = n, at, min(2*a.limit, stuckMost)
		}
	}
	return next
}

// stage says what a member does that is not online, or is empty if it is not to join its group now. known is whether
// the others count it as one of theirs, so that it cannot join.
func (m Look) stage(known bool) string {
	switch {
	case m.Silent():
		return "silent"
	case m.Err != nil || m.Out() && !known:
		return ""
	}
	return fmt.Sprint(m.State, m.Majority)
}

// got says how far a member got that joins its group. What it has received and not applied does not count: that grows
// while the others write.
func (m Look) got() string { return fmt.Sprint(m.Executed, m.Copied) }

// transactions returns how many a set of GTIDs has, such as UUID:1-5:7,UUID:tag:1-3.
// https://dev.mysql.com/doc/refman/8.4/en/replication-gtids-concepts.html
func transactions(set string) (count uint64) {
	for part := range strings.FieldsFuncSeq(set, func(r rune) bool { return r == ':' || r == ',' }) {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, errFrom := strconv.ParseUint(first, 10, 64)
		to, errTo := strconv.ParseUint(last, 10, 64)
		if errFrom == nil && errTo == nil && to >= from { // else it is a UUID, or a tag
			count += to - from + 1
		}
	}
	return count
}

// Stays reports whether a later look at a member shows it in the same stage. A launcher looks once more before it kills
// a member, because this broker may have been paused, or another one may have killed it.
func (m Look) Stays(later Look) bool {
	return m.Online() == later.Online() && m.stage(true) == later.stage(true)
}
