package galera

import (
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/launcher/mysqlgroup"
)

const (
	// WithoutMajority is how long a member may be without a majority before it is ended, so that the group can begin
	// again.
	WithoutMajority = 10 * time.Second

	// StartsAlone is how long a member may be without a majority that the others have.
	StartsAlone = time.Minute

	// BlockedTime is how long a session may keep a member from applying what it has received.
	BlockedTime = 5 * time.Second
)

// Due is what a launcher is to do for a group whose members wait for orders.
type Due struct {
	Begin   bool  // the group, of which no member is left
	Join    []int // members, counted from 0, that wait
	End     []int // members that take no part in the group, although they run
	Unblock []int // members whose sessions keep them from applying what they have received
}

// Decide returns what is due for a group whose members look like that. For how long a member has been without a
// majority, and blocked, is for the launcher to measure.
func Decide(all []mysqlgroup.Look, alone, blocked []time.Duration) (due Due, err error) {
	limit := WithoutMajority
	if mysqlgroup.CountOnline(all) > 0 {
		limit = StartsAlone
	}
	out := 0
	var silent []error
	for n, m := range all {
		switch {
		case m.Err != nil:
			silent = append(silent, m.Err)
		case m.Out():
			out++
			due.Join = append(due.Join, n)
		case m.State == Alone && alone[n] > limit:
			due.End = append(due.End, n)
		case m.Online() && blocked[n] > BlockedTime:
			due.Unblock = append(due.Unblock, n)
		}
	}
	if mysqlgroup.CountOnline(all) > 0 {
		return due, nil
	}
	due.Join = nil
	due.Begin = out == len(all)
	if out > 0 && out < len(all) && out+len(silent) == len(all) {
		err = fmt.Errorf("no member is in a group, and only with all of them it can be told which one has every "+
			"transaction: %w", errors.Join(silent...))
	}
	return due, err
}

// ToBegin returns the member, counted from 0, that is to begin a group all of whose members wait. ready says that the
// group was ready once, so that a member without data has lost them.
func ToBegin(all []mysqlgroup.Look, ready bool) (int, error) {
	if ready {
		if err := mysqlgroup.LostData(all); err != nil {
			return -1, err
		}
	}
	positions := make([]Position, len(all))
	for n, m := range all {
		positions[n] = PositionOf(m)
	}
	first, err := First(positions)
	if err == nil && first < 0 {
		if ready {
			return -1, errors.New("no member has all data: an operator has to restore a backup")
		}
		first = 0
	}
	return first, err
}
