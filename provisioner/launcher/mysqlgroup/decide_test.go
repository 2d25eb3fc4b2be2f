package mysqlgroup_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"mysql-broker/provisioner/launcher/mysqlgroup"
)

var addresses = []string{"one:3306", "two:3306", "three:3306"}

// What is due depends on what the members say of themselves.
func TestDecide(t *testing.T) {
	t.Parallel()
	type looks = []mysqlgroup.Look
	online := mysqlgroup.Look{State: "ONLINE", Majority: true, Knows: []string{"one:3306", "two:3306"}, Executed: "a:1-9"}
	out := mysqlgroup.Look{State: "OFFLINE", Executed: "a:1-8"}
	left := mysqlgroup.Look{State: "ERROR", Executed: "a:1-8"}
	recovering := mysqlgroup.Look{State: "RECOVERING", Majority: true}
	silent := mysqlgroup.Look{Err: errors.New("it does not respond")}
	cut := mysqlgroup.Look{State: "ONLINE", Executed: "a:1-9"}
	shut := online
	shut.Offline = true
	full := online
	full.Logs = []mysqlgroup.Log{{Name: "log.1", Bytes: 90 << 20}, {Name: "log.2", Bytes: 50 << 20},
		{Name: "log.3", Bytes: 30 << 20}}
	alone := online
	alone.Knows = []string{"one:3306"}
	for name, test := range map[string]struct {
		all     looks
		most    int64
		want    mysqlgroup.Due
		refused bool
	}{
		"all are online":           {all: looks{online, online, online}, want: mysqlgroup.Due{Join: -1}},
		"one is out":               {all: looks{online, online, out}, want: mysqlgroup.Due{Join: 2}},
		"two are out":              {all: looks{left, alone, out}, want: mysqlgroup.Due{Join: 2}},
		"the others still know it": {all: looks{online, out, online}, want: mysqlgroup.Due{Join: -1}},
		"another one joins":        {all: looks{alone, recovering, out}, want: mysqlgroup.Due{Join: -1}},
		"one refuses applications": {all: looks{online, shut, online},
			want: mysqlgroup.Due{Join: -1, LetIn: []int{1}}},
		"one has too many logs": {all: looks{online, full, online}, most: 90 << 20,
			want: mysqlgroup.Due{Join: -1, Purge: map[int]string{1: "log.2"}}},
		"one has logs in a small group": {all: looks{full, online, online}, most: 1,
			want: mysqlgroup.Due{Join: -1, Purge: map[int]string{0: "log.3"}}},
		"one has few logs":                  {all: looks{full, online, online}, most: 170 << 20, want: mysqlgroup.Due{Join: -1}},
		"all are out":                       {all: looks{out, left, out}, want: mysqlgroup.Due{Join: -1, Begin: true}},
		"the last one has no majority":      {all: looks{cut, silent, silent}, want: mysqlgroup.Due{Join: -1}},
		"two are out, one does not respond": {all: looks{out, silent, out}, want: mysqlgroup.Due{Join: -1}, refused: true},
	} {
		got, err := mysqlgroup.Decide(test.all, mysqlgroup.Group{Addresses: addresses, MostLogs: test.most})
		if !reflect.DeepEqual(got, test.want) || test.refused != (err != nil) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, test.want)
		}
	}
}

// A member without data keeps a group from beginning, unless none has any.
func TestLostData(t *testing.T) {
	t.Parallel()
	has, empty := mysqlgroup.Look{Executed: "a:1-9"}, mysqlgroup.Look{}
	for _, all := range [][]mysqlgroup.Look{{has, has, has}, {empty, empty, empty}} {
		if err := mysqlgroup.LostData(all); err != nil {
			t.Errorf("%v: %v", all, err)
		}
	}
	if mysqlgroup.LostData([]mysqlgroup.Look{has, empty, has}) == nil {
		t.Error("a group in which a member has lost its data may begin")
	}
}

// A member that is not online is restarted first, and the primary last.
func TestNextToRestart(t *testing.T) {
	t.Parallel()
	online := mysqlgroup.Look{State: "ONLINE", Majority: true}
	primary := online
	primary.Primary = true
	for _, test := range []struct {
		all  []mysqlgroup.Look
		due  []int
		want int
	}{
		{[]mysqlgroup.Look{primary, online, online}, []int{0, 1, 2}, 1},
		{[]mysqlgroup.Look{primary, online, {}}, []int{0, 1, 2}, 2},
		{[]mysqlgroup.Look{primary, online, online}, []int{0}, 0},
	} {
		if got := mysqlgroup.NextToRestart(test.all, test.due); got != test.want {
			t.Errorf("%v of %v: %d, want %d", test.due, test.all, got, test.want)
		}
	}
}

// A group is begun with a member that has left the former one already, if any can be.
func TestBeginOrder(t *testing.T) {
	t.Parallel()
	out, leaves := mysqlgroup.Look{State: "OFFLINE"}, mysqlgroup.Look{State: "ERROR"}
	if got := mysqlgroup.BeginOrder([]mysqlgroup.Look{leaves, out, leaves, out}); !slices.Equal(got, []int{1, 3, 0, 2}) {
		t.Errorf("the order is %v", got)
	}
}
