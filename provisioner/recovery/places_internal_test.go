package recovery

import (
	"slices"
	"testing"
	"time"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

var (
	here      = store.SharedLocation("shared-1") // as in scene
	elsewhere = store.SharedLocation("shared-2")
)

// copiedAt is the copy of an instance that was moved then; the zero time stands for one that was not.
func copiedAt(moved time.Time) store.InstanceCopy {
	c := copied("i", db, "small", before)
	if !moved.IsZero() {
		c.MovedAt = &moved
	}
	return c
}

// An instance is where it was moved to last, unless the backup knows that place as the former one.
func TestWhereDataAre(t *testing.T) {
	t.Parallel()
	never := time.Time{}
	other := func(moved *time.Time) *store.RecordedPlace {
		return &store.RecordedPlace{InstanceID: "i", Database: db, Location: elsewhere, Moved: moved}
	}
	for name, test := range map[string]struct {
		other  *store.RecordedPlace
		listed map[store.Location]store.InstanceCopy
		moved  bool
	}{
		"listed where it is recorded": {listed: map[store.Location]store.InstanceCopy{here: copiedAt(never)}},
		"listed nowhere":              {},
		"moved, and the former place is gone": {moved: true,
			listed: map[store.Location]store.InstanceCopy{elsewhere: copiedAt(never)}},
		"moved, and the former place is there": {moved: true,
			listed: map[store.Location]store.InstanceCopy{here: copiedAt(never), elsewhere: copiedAt(after)}},
		"moved there and back": {
			listed: map[store.Location]store.InstanceCopy{here: copiedAt(after.Add(1)), elsewhere: copiedAt(after)}},
		"the former place is listed yet": {other: other(&before),
			listed: map[store.Location]store.InstanceCopy{elsewhere: copiedAt(never)}},
		"both places of a recorded move are listed": {other: other(&before),
			listed: map[store.Location]store.InstanceCopy{here: copiedAt(before), elsewhere: copiedAt(never)}},
		"moved back to the former place that the backup knows": {other: other(&before), moved: true,
			listed: map[store.Location]store.InstanceCopy{here: copiedAt(before), elsewhere: copiedAt(after)}},
		"the move was completed after the backup": {other: other(nil), moved: true,
			listed: map[store.Location]store.InstanceCopy{here: copiedAt(never), elsewhere: copiedAt(after)}},
		"the move was not completed": {other: other(nil),
			listed: map[store.Location]store.InstanceCopy{here: copiedAt(never)}},
		"another one of the same id": {
			listed: map[store.Location]store.InstanceCopy{elsewhere: copied("i", db, "small", after)}},
	} {
		p := newPlaces()
		i := instance("i", db, before)
		p.recorded[i.ID] = i
		if test.other != nil {
			p.others[i.ID] = *test.other
		}
		for _, at := range []store.Location{here, elsewhere} {
			if c, found := test.listed[at]; found {
				p.list(c, at)
			}
		}
		if l, moved := p.moved(i); moved != test.moved || moved && l.at != elsewhere {
			t.Errorf("%s: moved: %t, to %+v", name, moved, l)
		}
	}
}

// At both places of data that was moved, nothing is shut, forgotten or recorded a second time.
func TestComparedPlaces(t *testing.T) {
	t.Parallel()
	there := instance("i", db, before)
	there.Location = elsewhere
	used := []mysqladmin.Grant{may(account, db)}
	for name, test := range map[string]struct {
		recorded store.RecordedInstance
		other    *store.RecordedPlace
		listed   map[store.Location]store.InstanceCopy
		database bool // it is on shared-1
		want     []string
	}{
		"the recorded former place": {recorded: there, database: true,
			other:  &store.RecordedPlace{InstanceID: "i", Database: db, Location: here, Moved: &before},
			listed: map[store.Location]store.InstanceCopy{here: copiedAt(time.Time{}), elsewhere: copiedAt(before)}},
		"the same, no longer listed": {recorded: there, database: true,
			other:  &store.RecordedPlace{InstanceID: "i", Database: db, Location: here, Moved: &before},
			listed: map[store.Location]store.InstanceCopy{elsewhere: copiedAt(before)}},
		"the place to which the data is being moved": {recorded: there, database: true,
			other:  &store.RecordedPlace{InstanceID: "i", Database: db, Location: here},
			listed: map[store.Location]store.InstanceCopy{elsewhere: copiedAt(time.Time{})}},
		"moved here after the backup": {recorded: there, database: true, want: []string{"adopt place " + db, "settle account " + account},
			listed: map[store.Location]store.InstanceCopy{here: copiedAt(after), elsewhere: copiedAt(time.Time{})}},
		"moved away after the backup": {recorded: instance("i", db, before), database: true,
			listed: map[store.Location]store.InstanceCopy{here: copiedAt(time.Time{}), elsewhere: copiedAt(after)}},
		"moved away after the backup, and removed": {recorded: instance("i", db, before),
			listed: map[store.Location]store.InstanceCopy{elsewhere: copiedAt(time.Time{})}},
	} {
		s := scene{accounts: []string{account}, grants: used, recorded: []store.RecordedAccount{bound(store.Ready)}}
		if test.database {
			s.databases = []string{db}
		}
		if test.recorded.Location == here {
			s.instances = []store.RecordedInstance{test.recorded}
		}
		s.places = newPlaces()
		s.places.recorded["i"] = test.recorded
		if test.other != nil {
			s.places.others["i"] = *test.other
		}
		for at, c := range test.listed {
			s.places.list(c, at)
			if at == here {
				s.listed = append(s.listed, c)
			}
		}
		if items, _ := s.plan(); !slices.Equal(items, test.want) {
			t.Errorf("%s: %q", name, items)
		}
	}
}
