package galera_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"mysql-broker/provisioner/launcher/galera"
	"mysql-broker/provisioner/launcher/mysqlgroup"
)

const group = "3c7a5c4e-9d7b-11f0-8a3e-0242ac120002"

type looks = []mysqlgroup.Look

var (
	online = mysqlgroup.Look{State: "ONLINE", Majority: true}
	joins  = mysqlgroup.Look{State: "RECOVERING", Majority: true}
	alone  = mysqlgroup.Look{State: galera.Alone}
	silent = mysqlgroup.Look{Err: errors.New("it does not respond")}
)

// waits is a member that waits for an order.
func waits(has string) mysqlgroup.Look { return mysqlgroup.Look{State: galera.Waiting, Executed: has} }

// What is due depends on what the members say of themselves, and for how long they have said so.
func TestDecide(t *testing.T) {
	t.Parallel()
	out := waits(group + ":7 safe")
	for name, test := range map[string]struct {
		all     looks
		lasts   time.Duration
		want    galera.Due
		refused bool
	}{
		"all are online":                       {all: looks{online, online, online}},
		"one waits":                            {all: looks{online, out, online}, want: galera.Due{Join: []int{1}}},
		"two wait":                             {all: looks{out, online, out}, want: galera.Due{Join: []int{0, 2}}},
		"one joins, one waits":                 {all: looks{online, joins, out}, want: galera.Due{Join: []int{2}}},
		"all wait":                             {all: looks{out, out, out}, want: galera.Due{Begin: true}},
		"two wait, one does not respond":       {all: looks{out, silent, out}, refused: true},
		"two wait, one joins":                  {all: looks{out, joins, out}},
		"none responds":                        {all: looks{silent, silent, silent}},
		"the last one has just lost the group": {all: looks{alone, out, silent}, lasts: 9 * time.Second},
		"the last one has no majority": {all: looks{alone, out, silent}, lasts: 11 * time.Second,
			want: galera.Due{End: []int{0}}},
		"one is cut off":          {all: looks{online, online, alone}, lasts: 59 * time.Second},
		"one is cut off for long": {all: looks{online, online, alone}, lasts: 61 * time.Second, want: galera.Due{End: []int{2}}},
	} {
		got, err := galera.Decide(test.all, slices.Repeat([]time.Duration{test.lasts}, 3), make([]time.Duration, 3))
		if !reflect.DeepEqual(got, test.want) || test.refused != (err != nil) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, test.want)
		}
	}
	blocked := []time.Duration{0, 6 * time.Second, 4 * time.Second}
	if got, err := galera.Decide(looks{online, online, online}, make([]time.Duration, 3), blocked); err != nil ||
		!slices.Equal(got.Unblock, []int{1}) {
		t.Errorf("one is blocked for long: %+v, %v", got, err)
	}
}

// A group begins with the member that has most, and never without the data that one member may alone have.
func TestToBegin(t *testing.T) {
	t.Parallel()
	empty := waits("")
	for name, test := range map[string]struct {
		all     looks
		ready   bool
		want    int
		refused bool
	}{
		"a new group": {all: looks{empty, empty, empty}},
		"a new group whose second member was the first": {all: looks{empty, waits(group + ":3 safe"), empty}, want: 1},
		"the third one has most": {all: looks{waits(group + ":8 safe"), waits(group + ":9 safe"), waits(group + ":10 safe")},
			ready: true, want: 2},
		"the second one can continue": {all: looks{waits(group + ":9 unsafe"), waits(group + ":9 safe"),
			waits(group + ":2 safe")}, ready: true, want: 1},
		"one was getting all data": {all: looks{waits("incomplete"), waits(group + ":2 safe"), waits(group + ":1 safe")},
			ready: true, want: 1},
		"one has lost its data": {all: looks{waits(group + ":2 safe"), empty, waits(group + ":1 safe")}, ready: true,
			refused: true},
		"all have lost their data": {all: looks{empty, empty, empty}, ready: true, refused: true},
		"two groups": {all: looks{waits(group + ":2 safe"), waits("b" + group[1:] + ":9 safe"), waits("incomplete")},
			ready: true, refused: true},
	} {
		got, err := galera.ToBegin(test.all, test.ready)
		if test.refused != (err != nil) || err == nil && got != test.want {
			t.Errorf("%s: %d, %v, want %d", name, got, err, test.want)
		}
	}
}

// Applications stay where they are, unless that member is gone or does not commit.
func TestLead(t *testing.T) {
	t.Parallel()
	gives := online
	gives.Gives = true
	for name, test := range map[string]struct {
		all  looks
		now  int
		want []bool
	}{
		"none is in use":                {all: looks{silent, online, online}, now: -1, want: []bool{false, true, false}},
		"the second one is in use":      {all: looks{online, online, online}, now: 1, want: []bool{false, true, false}},
		"the second one is gone":        {all: looks{joins, silent, online}, now: 1, want: []bool{false, false, true}},
		"the second one gives its data": {all: looks{silent, gives, online}, now: 1, want: []bool{false, false, true}},
		"only it is online":             {all: looks{silent, gives, joins}, now: 1, want: []bool{false, true, false}},
		"none is online":                {all: looks{silent, alone, waits("")}, now: 1, want: []bool{false, false, false}},
	} {
		all := slices.Clone(test.all)
		galera.Lead(all, test.now)
		for n, m := range all {
			if m.Primary != test.want[n] {
				t.Errorf("%s: primaries %+v", name, all)
			}
		}
	}
}
