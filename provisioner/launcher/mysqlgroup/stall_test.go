package mysqlgroup_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"mysql-broker/provisioner/launcher/mysqlgroup"
)

// A primary is suspected once another member has had other transactions for ten seconds, in which it committed nothing,
// or once it has let nobody log in for thirty.
func TestStall(t *testing.T) {
	t.Parallel()
	addresses := []string{"one:3306", "two:3306"}
	primary := mysqlgroup.Look{State: "ONLINE", Majority: true, Primary: true, Executed: "a:1-9", Leader: "one:3306"}
	same, ahead := primary, primary
	same.Primary, ahead.Primary, ahead.Executed = false, false, "a:1-12"
	commits := primary
	commits.Executed = "a:1-10"
	joining := ahead
	joining.State = "RECOVERING"
	leaderless := ahead
	leaderless.Leader = ""
	silent := mysqlgroup.Look{Err: fmt.Errorf("log in: %w", context.DeadlineExceeded)}
	gone := mysqlgroup.Look{Err: &net.OpError{Op: "dial", Err: context.DeadlineExceeded}}
	type looks = []mysqlgroup.Look
	for name, test := range map[string]struct {
		first, later looks
		after        time.Duration
		want         int
	}{
		"nobody is ahead":      {looks{primary, same}, looks{primary, same}, time.Minute, -1},
		"it commits":           {looks{primary, ahead}, looks{commits, ahead}, time.Minute, -1},
		"not for long":         {looks{primary, ahead}, looks{primary, ahead}, 9 * time.Second, -1},
		"for long":             {looks{ahead, primary}, looks{ahead, primary}, 11 * time.Second, 1},
		"there was no primary": {looks{same, ahead}, looks{primary, ahead}, time.Minute, -1},
		"the other one joins":  {looks{primary, joining}, looks{primary, joining}, time.Minute, -1},
		"it is silent":         {looks{silent, same}, looks{silent, same}, 31 * time.Second, 0},
		"not silent for long":  {looks{silent, same}, looks{silent, same}, 29 * time.Second, -1},
		"it was silent":        {looks{silent, ahead}, looks{primary, ahead}, time.Minute, -1},
		"a secondary is":       {looks{primary, silent}, looks{primary, silent}, time.Minute, -1},
		"it is excluded":       {looks{silent, leaderless}, looks{silent, leaderless}, time.Minute, -1},
		"it cannot be reached": {looks{gone, same}, looks{gone, same}, time.Minute, -1},
	} {
		var s mysqlgroup.Stall
		now := time.Now()
		s.Suspect(test.first, addresses, now)
		s.Suspect(test.first, addresses, now)
		if got := s.Suspect(test.later, addresses, now.Add(test.after)); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
