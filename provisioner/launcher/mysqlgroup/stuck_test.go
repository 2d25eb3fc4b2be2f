package mysqlgroup_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"mysql-broker/provisioner/launcher/mysqlgroup"
)

// A member hangs that has got no further for a minute, and then for two, although it runs and is to join its group. It
// gets no further if it only applies what the others go on to write.
func TestStuck(t *testing.T) {
	t.Parallel()
	online := mysqlgroup.Look{State: "ONLINE", Majority: true, Executed: "a:1-9", Knows: []string{"one:3306"}}
	knows := online
	knows.Knows = []string{"one:3306", "two:3306"}
	joins := mysqlgroup.Look{State: "RECOVERING", Majority: true, Executed: "a:1-5", Received: "a:1-7", Queue: 2}
	applied, received, copied := joins, joins, joins
	applied.Executed, received.Received, copied.Copied = "a:1-6", "a:1-8", 1
	received.Queue++
	cutOff := mysqlgroup.Look{State: "ONLINE"}
	out, failed := mysqlgroup.Look{State: "OFFLINE"}, mysqlgroup.Look{State: "ERROR"}
	silent := mysqlgroup.Look{Err: fmt.Errorf("log in: %w", context.DeadlineExceeded)}
	gone := mysqlgroup.Look{Err: errors.New("connection refused")}
	addresses := []string{"one:3306", "two:3306", "three:3306"}
	for name, test := range map[string]struct {
		other, first, later mysqlgroup.Look
		after               time.Duration
		hangs               bool
	}{
		"it joins":                       {online, joins, joins, 59 * time.Second, false},
		"it joins for long":              {online, joins, joins, time.Minute, true},
		"it applies":                     {online, joins, applied, time.Hour, false},
		"others write":                   {online, joins, received, time.Minute, true},
		"it gets all data":               {online, joins, copied, time.Hour, false},
		"it is silent":                   {online, silent, silent, time.Minute, true},
		"it was silent":                  {online, silent, joins, time.Hour, false},
		"it hears nobody":                {online, cutOff, cutOff, time.Minute, true},
		"it is online":                   {online, online, online, time.Hour, false},
		"it is in no group":              {online, out, out, time.Hour, false},
		"it failed":                      {online, failed, failed, time.Hour, false},
		"it failed, and others count it": {knows, failed, failed, time.Minute, true},
		"it is starting":                 {online, gone, gone, time.Hour, false},
	} {
		var s mysqlgroup.Stuck
		now := time.Now()
		s.Next([]mysqlgroup.Look{test.other, test.first}, addresses, now)
		want := -1
		if test.hangs {
			want = 1
		}
		if found := s.Next([]mysqlgroup.Look{test.other, test.later}, addresses, now.Add(test.after)); found != want {
			t.Errorf("%s: %d, want %d", name, found, want)
		}
	}

	var slow mysqlgroup.Stuck
	began := time.Now()
	slow.Next([]mysqlgroup.Look{silent, silent}, addresses, began)
	if found := slow.Next([]mysqlgroup.Look{silent, silent}, addresses, began.Add(time.Hour)); found >= 0 {
		t.Errorf("a broker that is too slow for all members kills %d", found)
	}
	slow.Next([]mysqlgroup.Look{joins, joins, online}, addresses, began)
	for want := range 2 {
		if found := slow.Next([]mysqlgroup.Look{joins, joins, online}, addresses, began.Add(2*time.Hour)); found != want {
			t.Errorf("of two that hang: %d, want %d", found, want)
		}
	}

	var s mysqlgroup.Stuck
	now := time.Now()
	find := func(m mysqlgroup.Look, after time.Duration) bool {
		now = now.Add(after)
		return s.Next([]mysqlgroup.Look{m}, addresses, now) == 0
	}
	for n, step := range []struct {
		look  mysqlgroup.Look
		after time.Duration
		hangs bool
	}{
		{joins, 0, false}, {joins, time.Minute, true}, // it is started again
		{gone, time.Second, false}, {out, time.Second, false}, {joins, time.Second, false},
		{joins, time.Minute, false}, {joins, time.Minute, true},
		{online, time.Second, false}, {joins, time.Second, false}, {joins, time.Minute, true},
	} {
		if hangs := find(step.look, step.after); hangs != step.hangs {
			t.Errorf("step %d: it hangs: %v", n, hangs)
		}
	}
}

// The others write one transaction a second. A member that applies theirs as they come hangs if it does not join for a
// minute. One that lags is left alone.
func TestStuckWhileOthersWrite(t *testing.T) {
	t.Parallel()
	for lag, hangs := range map[int]bool{2: true, 30: false} {
		var s mysqlgroup.Stuck
		began, found := time.Now(), 0
		for second := 0; second < 100; second += 2 {
			executed := func(last int) string {
				return fmt.Sprintf("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7:9:tag:1-%d,12345678-71ca-11e1-9e33-c80aa9429562:1-5", last)
			}
			if s.Next([]mysqlgroup.Look{
				{State: "ONLINE", Majority: true, Executed: executed(1000 + second)},
				{State: "RECOVERING", Majority: true, Executed: executed(1000 + second - lag)},
			}, []string{"one:3306", "two:3306"}, began.Add(time.Duration(second)*time.Second)) == 1 {
				found++
			}
		}
		if found > 0 != hangs {
			t.Errorf("a member that is %d s behind hangs %d times", lag, found)
		}
	}
}
