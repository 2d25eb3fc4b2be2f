// Package mysqlgroup is what launchers do for a group of MySQL servers with Group Replication. The group itself decides
// which member is the primary, and which ones belong to it. A launcher lets members join that are in no group, and
// begins the group again if none is left.
package mysqlgroup

import (
	"errors"
	"fmt"
	"net"
	"slices"
)

// Due is what a launcher is to do for a group.
type Due struct {
	Begin bool           // the group, of which no member is left
	LetIn []int          // members, counted from 0, that have applications to be let in again
	Join  int            // the member that is to join, or -1
	Purge map[int]string // the oldest binary logs that members keep, which have too many
}

// Group is what a launcher knows of a group.
type Group struct {
	Addresses []string // of the members
	MostLogs  int64    // bytes of binary logs on each member; it may keep 64 MiB in any case
}

// Decide returns what is due for a group whose members look like that.
func Decide(all []Look, g Group) (Due, error) {
	due := Due{Join: -1}
	if CountOnline(all) == 0 {
		return due, due.decideBegin(all)
	}
	// One after the other: MySQL 9.7 may stop to commit if a member joins while another one recovers.
	joining := slices.ContainsFunc(all, func(m Look) bool { return m.State == "RECOVERING" })
	for n, m := range all {
		switch {
		case m.Out():
			if !joining && !Known(all, g.Addresses[n]) {
				joining, due.Join = true, n
			}
		case m.Online() && m.Offline: // since it was cut off
			due.LetIn = append(due.LetIn, n)
		}
		// Applications could fill the disk by changing the same rows for as long as logs are kept.
		if oldest := oldestKept(m.Logs, g.MostLogs); m.Online() && oldest != "" {
			if due.Purge == nil {
				due.Purge = map[int]string{}
			}
			due.Purge[n] = oldest
		}
	}
	return due, nil
}

// decideBegin decides whether a group is to begin that has no member.
func (d *Due) decideBegin(all []Look) error {
	out := 0
	var silent []error
	for _, m := range all {
		switch {
		case m.Out():
			out++
		case m.Err != nil:
			silent = append(silent, m.Err)
		}
	}
	if out+len(silent) < len(all) { // a member is joining, or about to find out that it has no majority
		return nil
	}
	if out < len(all) {
		return fmt.Errorf("no member is in a group, and only all of them together show which one has every "+
			"transaction: %w", errors.Join(silent...))
	}
	d.Begin = true
	return nil
}

// Known reports whether a member that is online knows the one at that address. One that was killed and is known still
// cannot join yet.
func Known(all []Look, address string) bool {
	host, port, err := net.SplitHostPort(address)
	return err == nil && slices.ContainsFunc(all, func(m Look) bool {
		return m.Online() && slices.Contains(m.Knows, host+":"+port)
	})
}

// NextToRestart returns which of the members that are due is to be restarted first: one that is not online, then those
// that are not the primary.
func NextToRestart(all []Look, due []int) int {
	for _, n := range due {
		if !all[n].Online() {
			return n
		}
	}
	for _, n := range due {
		if !all[n].Primary {
			return n
		}
	}
	return due[0]
}

// OthersOnline reports whether a group does without a member.
func OthersOnline(all []Look, without int) bool {
	for n, m := range all {
		if n != without && !m.Online() {
			return false
		}
	}
	return true
}

// Other returns a member that is online, other than that one, or -1.
func Other(all []Look, than int) int {
	for n, m := range all {
		if n != than && m.Online() {
			return n
		}
	}
	return -1
}
