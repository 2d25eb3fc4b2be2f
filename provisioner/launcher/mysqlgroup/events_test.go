package mysqlgroup_test

import (
	"slices"
	"testing"

	"mysql-broker/provisioner/launcher/mysqlgroup"
)

func TestEventsDue(t *testing.T) {
	t.Parallel()
	const stopped, runs, off = "SLAVESIDE_DISABLED", "ENABLED", "DISABLED"
	member := func(primary bool, state string) mysqlgroup.Look {
		return mysqlgroup.Look{State: "ONLINE", Majority: true, Primary: primary, Events: map[string]string{"db.one": state}}
	}
	gone := mysqlgroup.Look{}
	type looks = []mysqlgroup.Look
	due := []string{"db.one"}
	for name, test := range map[string]struct {
		before, now looks
		want        []string
	}{
		"the primary runs it":             {now: looks{member(true, runs), member(false, stopped)}},
		"a former primary ran it":         {now: looks{member(false, runs), member(true, stopped)}, want: due},
		"a former primary is gone":        {looks{member(true, runs), member(false, stopped)}, looks{gone, member(true, stopped)}, due},
		"nobody knows the former primary": {now: looks{gone, member(true, stopped)}},
		"it is off":                       {now: looks{member(false, off), member(true, stopped)}},
		"it was off":                      {looks{member(true, off), member(false, stopped)}, looks{gone, member(true, stopped)}, nil},
		"it was set to off elsewhere":     {looks{member(true, runs), member(false, stopped)}, looks{member(false, runs), member(true, off)}, nil},
		"there is no primary": {looks{member(true, runs), member(false, stopped)},
			looks{gone, member(false, stopped)}, nil},
	} {
		var e mysqlgroup.Events
		if test.before != nil {
			e.Due(test.before)
		}
		e.Due(looks{gone, gone}) // nobody responds for a moment
		for range 2 {            // it is due until somebody runs it
			if got := e.Due(test.now); !slices.Equal(got, test.want) {
				t.Errorf("%s: %v are due, want %v", name, got, test.want)
			}
		}
	}
}
