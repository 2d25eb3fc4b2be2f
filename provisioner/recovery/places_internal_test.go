package recovery

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

var (
	here      = store.SharedLocation("shared-1") // as in scene
	elsewhere = store.SharedLocation("shared-2")
)

// found is what a test finds in a place: nothing, a copy that was not finished, or a complete one, maybe listed there.
type found struct {
	unfinished, unread bool
	listed             *store.InstanceCopy
}

// listedAt is a complete copy of an instance that was moved then; the zero time stands for one that was not.
func listedAt(moved time.Time) *found {
	c := copied("i", db, "small", before)
	if !moved.IsZero() {
		c.MovedAt = &moved
	}
	return &found{listed: &c}
}

// placesOf are places of an instance that is recorded at shared-1.
func placesOf(other *store.RecordedPlace, at map[store.Location]*found) places {
	p := newPlaces()
	p.recorded["i"] = instance("i", db, before)
	if other != nil {
		p.others["i"] = *other
	}
	for _, place := range []store.Location{here, elsewhere} {
		f := at[place]
		if f == nil {
			continue
		}
		if p.unread[place.Server] = f.unread; f.unread {
			continue
		}
		p.exists[placedAt(place, db)] = existence{complete: !f.unfinished}
		if f.listed != nil {
			p.list(*f.listed, place)
		}
	}
	return p
}

// An instance is where it was moved to last, unless the backup knows that place as the former one and its data is still
// where the backup knows it.
func TestWhereDataAre(t *testing.T) {
	t.Parallel()
	never, later := time.Time{}, after.Add(time.Minute)
	moving := &store.RecordedPlace{InstanceID: "i", Database: db, Location: elsewhere}
	former := &store.RecordedPlace{InstanceID: "i", Database: db, Location: elsewhere, Moved: &before}
	unfinished := func(moved time.Time) *found { return &found{unfinished: true, listed: listedAt(moved).listed} }
	unread := &found{unread: true}
	created := copied("i", db, "small", after)
	type spots map[store.Location]*found
	for name, test := range map[string]struct {
		other  *store.RecordedPlace
		at     spots
		moved  bool
		unsure bool
	}{
		"listed where it is recorded":               {at: spots{here: listedAt(never)}},
		"there, and not listed":                     {at: spots{here: {}}},
		"nowhere":                                   {},
		"another one of the same id":                {at: spots{elsewhere: {listed: &created}}},
		"moved, and the former place is gone":       {at: spots{elsewhere: listedAt(never)}, moved: true},
		"moved, and the former place is there":      {at: spots{here: listedAt(never), elsewhere: listedAt(after)}, moved: true},
		"moved, and the former place is not listed": {at: spots{here: {}, elsewhere: listedAt(after)}, moved: true},
		"moved there and back":                      {at: spots{here: listedAt(later), elsewhere: listedAt(after)}},
		"moved there and back, and the other place is gone, listed at midnight": {at: spots{here: listedAt(never)}},
		"the former place is listed yet":                                        {other: former, at: spots{here: {}, elsewhere: listedAt(never)}},
		"both places of a recorded move are listed":                             {other: former, at: spots{here: listedAt(before), elsewhere: listedAt(never)}},
		"moved back to the former place that the backup knows": {other: former, moved: true,
			at: spots{here: listedAt(before), elsewhere: listedAt(after)}},
		"moved back there, and the other place is gone": {other: former, moved: true, at: spots{elsewhere: listedAt(after)}},
		"moved back there, the other place is gone, listed at midnight": {other: former, moved: true,
			at: spots{elsewhere: listedAt(never)}},
		"moved back there, and being moved away again": {other: former, moved: true,
			at: spots{here: unfinished(before), elsewhere: listedAt(never)}},
		"moved back there and away again":                    {other: former, at: spots{here: listedAt(later), elsewhere: listedAt(never)}},
		"the former place, while the other one is not known": {other: former, at: spots{here: unread, elsewhere: listedAt(never)}},
		"moved back, while the other place is not known": {other: former, moved: true,
			at: spots{here: unread, elsewhere: listedAt(after)}},
		"the move was completed after the backup": {other: moving, moved: true,
			at: spots{here: listedAt(never), elsewhere: listedAt(after)}},
		"the move was completed, and the former place is gone": {other: moving, moved: true, at: spots{elsewhere: listedAt(never)}},
		"the move was completed, and there was another one back": {other: moving,
			at: spots{here: listedAt(later), elsewhere: listedAt(after)}},
		"the move was completed, and one back begun": {other: moving, moved: true,
			at: spots{here: unfinished(never), elsewhere: listedAt(after)}},
		"the move was not completed": {other: moving, at: spots{here: listedAt(never), elsewhere: {unfinished: true}}},
		"the move was not completed, to where the data was once": {other: moving,
			at: spots{here: listedAt(never), elsewhere: unfinished(after)}},
		"two places, listed alike": {at: spots{here: listedAt(never), elsewhere: listedAt(never)}, unsure: true},
		"two places, listed alike, and one is known as the former": {other: former,
			at: spots{here: listedAt(never), elsewhere: listedAt(never)}},
	} {
		p := placesOf(test.other, test.at)
		i := p.recorded["i"]
		l, moved := p.moved(i)
		assert.False(t, moved != test.moved || moved && l.at != elsewhere, "%s: moved: %t, to %+v", name, moved, l)
		_, found, sure := p.latest("i")
		assert.False(t, found && sure == test.unsure, "%s: sure: %t", name, sure)
	}
}

// At both places of data that was moved, nothing is shut, forgotten or recorded a second time. What may not be the latest
// is frozen.
func TestComparedPlaces(t *testing.T) {
	t.Parallel()
	never, later := time.Time{}, after.Add(time.Minute)
	there := instance("i", db, before)
	there.Location = elsewhere
	recordedHere := instance("i", db, before)
	formerHere := &store.RecordedPlace{InstanceID: "i", Database: db, Location: here, Moved: &before}
	undeleted := copied("j", db, "small", after)
	adopted := []string{"adopt place " + db, "settle account " + account}
	frozen, look := []string{"adopt freeze " + db}, []string{"look instance " + db}
	type spots map[store.Location]*found
	for name, test := range map[string]struct {
		recorded store.RecordedInstance
		other    *store.RecordedPlace
		at       spots
		mixed    bool
		want     []string
	}{
		"the recorded former place": {recorded: there, other: formerHere,
			at: spots{here: listedAt(never), elsewhere: listedAt(before)}},
		"the same, no longer listed": {recorded: there, other: formerHere, at: spots{here: {}, elsewhere: listedAt(before)}},
		"the place to which the data is being moved": {recorded: there, at: spots{here: {}, elsewhere: listedAt(never)},
			other: &store.RecordedPlace{InstanceID: "i", Database: db, Location: here}},
		"moved here after the backup": {recorded: there, want: adopted,
			at: spots{here: listedAt(after), elsewhere: listedAt(never)}},
		"moved back here after the backup, and listed at midnight, without the other place": {recorded: there,
			other: formerHere, at: spots{here: listedAt(never)}, want: adopted},
		"moved away after the backup":              {recorded: recordedHere, at: spots{here: listedAt(never), elsewhere: listedAt(after)}},
		"moved away after the backup, and removed": {recorded: recordedHere, at: spots{elsewhere: listedAt(never)}},
		"moved here and back after the backup": {recorded: there, at: spots{here: listedAt(after), elsewhere: listedAt(later)},
			want: []string{"adopt former place " + db}},
		"created after the backup, and moved here": {want: []string{"adopt instance " + db, "shut account " + account},
			at: spots{here: listedAt(after), elsewhere: listedAt(never)}},
		"created after the backup, and moved away": {at: spots{here: listedAt(never), elsewhere: listedAt(after)}},
		"gone here, and not listed elsewhere":      {recorded: recordedHere, at: spots{elsewhere: {}}, want: look},
		"gone here, and another instance has got its data elsewhere": {recorded: recordedHere,
			at: spots{elsewhere: {listed: &undeleted}}, want: []string{"forget instance " + db}},
		"gone here, and another server is not known": {recorded: recordedHere, want: look,
			at: spots{elsewhere: {unread: true}}},
		"two places, listed alike": {recorded: recordedHere, want: frozen,
			at: spots{here: listedAt(never), elsewhere: listedAt(never)}},
		"being moved back here from a place that is not known": {recorded: recordedHere, want: frozen,
			at: spots{here: {unfinished: true}}},
		"in the middle of a restore": {recorded: recordedHere, at: spots{here: listedAt(never)}, mixed: true, want: frozen},
	} {
		s := scene{accounts: []string{account}, grants: []mysqladmin.Grant{may(account, db)}}
		s.places = placesOf(test.other, test.at)
		delete(s.places.recorded, "i")
		if test.recorded.ID != "" {
			s.places.recorded["i"], s.recorded = test.recorded, []store.RecordedAccount{bound(store.Ready)}
		}
		if test.recorded.Location == here {
			s.instances = []store.RecordedInstance{test.recorded}
		}
		if f := test.at[here]; f != nil {
			s.databases = []string{db}
			if f.listed != nil {
				s.listed = append(s.listed, *f.listed)
			}
		}
		if test.mixed {
			s.mixed = map[string]string{db: "b_1"}
		}
		items, r := s.plan()
		assert.True(t, slices.Equal(items, test.want), "%s: %q", name, items)
		for _, i := range r.plan.Items {
			assert.False(t, i.Kind == freezeKind && !strings.Contains(i.Why, "mysql-broker backups restore"),
				"%s: nobody learns what to do: %s", name, i.Why)
		}
	}
}

// The place that data has left stays recorded unless nothing is there, or the operator has called it lost.
func TestPlaceThatWasLeft(t *testing.T) {
	t.Parallel()
	server := store.DedicatedLocation("here", "d_1")
	for name, test := range map[string]struct {
		at            store.Location
		there, unread bool
		without       string
		kept          bool
	}{
		"it is there":               {at: here, there: true, kept: true},
		"it is not":                 {at: here},
		"a silent shared server":    {at: here, unread: true, kept: true},
		"a lost shared server":      {at: here, unread: true, without: here.Server},
		"a silent launcher":         {at: server, unread: true, kept: true},
		"a lost dedicated server":   {at: server, unread: true, without: server.Server},
		"a dedicated server":        {at: server, there: true, kept: true},
		"no dedicated server there": {at: server},
	} {
		r := recovery{Config: Config{Without: []string{test.without}}, places: newPlaces()}
		i := instance("i", db, before)
		i.Location = test.at
		if test.there {
			r.places.exists[placedOf(i)] = existence{complete: true}
		}
		if test.at.Dedicated() {
			r.places.unread[store.DedicatedServers] = test.unread
		} else {
			r.places.unread[test.at.Server] = test.unread
		}
		assert.Equal(t, test.kept, r.kept(i), "%s: kept: %t", name, !test.kept)
	}
}

// A database that a task has not finished to fill is not that of a provision that succeeded.
func TestUnfinishedProvision(t *testing.T) {
	t.Parallel()
	for _, unfinished := range []bool{false, true} {
		s := scene{databases: []string{db}, instances: []store.RecordedInstance{instance("i", db, before)}}
		s.instances[0].State = store.Creating
		s.places = placesOf(nil, map[store.Location]*found{here: {unfinished: unfinished}})
		items, r := s.plan()
		assert.Empty(t, items)
		assert.NotEqual(t, unfinished, r.whole["i"], "whole")
	}
}
