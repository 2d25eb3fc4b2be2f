package recovery

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/inventory"
	"mysql-broker/provisioner/mark"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

// The backup was made at noon.
var (
	noon   = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	before = noon.Add(-time.Hour)
	after  = noon.Add(time.Hour)
)

// Names as the provisioner gives them.
const (
	db      = "db_aaaaaaaaaaaaaaaaaaaa"
	account = "u_aaaaaaaaaaaaaaaaaaaa"
)

// scene is a shared server with what PostgreSQL and the server itself have recorded.
type scene struct {
	databases, accounts, locked []string
	grants                      []mysqladmin.Grant
	instances                   []store.RecordedInstance
	recorded                    []store.RecordedAccount
	listed                      []store.InstanceCopy
	retained                    map[string]formerInstance
	unmarked                    bool
	tasks                       []store.Task
	places                      places
	mixed                       map[string]string
}

// plan compares the server, and returns the actions, and what they are about.
func (s scene) plan() (items []string, r *recovery) {
	r = &recovery{before: noon, gone: map[string]bool{}, whole: map[string]bool{}, tasks: s.tasks, places: s.places}
	if s.retained == nil {
		s.retained = map[string]formerInstance{}
	}
	r.compareSite(site{server: "shared-1", instances: map[string]store.RecordedInstance{}, recorded: s.recorded,
		retained: s.retained, holds: inventory.Holdings{Databases: s.databases, Accounts: s.accounts, Grants: s.grants,
			Locked: s.locked, Mixed: s.mixed}}, s.instances, mark.Record{Found: !s.unmarked, Instances: s.listed})
	r.endTasks()
	for _, i := range r.plan.Items {
		items = append(items, fmt.Sprintf("%s %s %s", i.Action, i.Kind, i.Name))
	}
	return items, r
}

func instance(id, database string, created time.Time) store.RecordedInstance {
	return store.RecordedInstance{ID: id, State: store.Ready, PlanID: "small", Location: store.SharedLocation("shared-1"),
		Database: database, CreatedAt: created}
}

func copied(id, database, plan string, created time.Time) store.InstanceCopy {
	return store.InstanceCopy{ID: id, Database: database, PlanID: plan, CreatedAt: created}
}

// left is the copy of an instance that was deleted, and whose data is kept.
func left(c store.InstanceCopy, deleted time.Time) store.InstanceCopy {
	c.Retained = &store.RetainedCopy{ID: "r_" + c.ID, DeletedAt: deleted}
	return c
}

func bound(state string) store.RecordedAccount {
	return store.RecordedAccount{InstanceID: "i", BindingID: "b", State: state, Account: account, CreatedAt: before}
}

func may(account, database string) mysqladmin.Grant {
	return mysqladmin.Grant{Account: account, Database: database}
}

func TestComparedInstances(t *testing.T) {
	t.Parallel()
	recorded := []store.RecordedInstance{instance("i", db, before)}
	for name, test := range map[string]struct {
		scene
		want []string
	}{
		"as recorded": {scene{databases: []string{db}, instances: recorded,
			listed: []store.InstanceCopy{copied("i", db, "small", before)}}, nil},
		"deleted since":                      {scene{instances: recorded}, []string{"forget instance " + db}},
		"missing on a server without a mark": {scene{instances: recorded, unmarked: true}, []string{"look instance " + db}},
		"recorded during the hold":           {scene{instances: []store.RecordedInstance{instance("i", db, after)}}, nil},
		"created since": {scene{databases: []string{db}, listed: []store.InstanceCopy{copied("i", db, "small", after)}},
			[]string{"adopt instance " + db}},
		"created and dropped since": {scene{listed: []store.InstanceCopy{copied("i", db, "small", after)}}, nil},
		"created since with the id of another one": {scene{databases: []string{"db_old", db},
			instances: []store.RecordedInstance{instance("i", "db_old", before)},
			listed:    []store.InstanceCopy{copied("i", db, "small", after)}}, []string{"look instance " + db, "look database " + db}},
		"deleted and created again since": {scene{databases: []string{db},
			instances: []store.RecordedInstance{instance("i", "db_old", before)},
			listed:    []store.InstanceCopy{copied("i", db, "small", after)}},
			[]string{"forget instance db_old", "adopt instance " + db}},
		"another plan": {scene{databases: []string{db}, instances: recorded,
			listed: []store.InstanceCopy{copied("i", db, "large", before)}}, []string{"adopt plan " + db}},
		"the plan of another instance": {scene{databases: []string{db}, instances: recorded,
			listed: []store.InstanceCopy{copied("other", db, "large", before)}}, nil},
		"frozen since": {scene{databases: []string{db}, instances: recorded, accounts: []string{account},
			recorded: []store.RecordedAccount{bound(store.Ready)}, grants: []mysqladmin.Grant{may(account, db)},
			listed: []store.InstanceCopy{{ID: "i", Database: db, PlanID: "small", CreatedAt: before, FrozenSince: &after}}},
			[]string{"adopt freeze " + db}},
		"a stranger":                            {scene{databases: []string{db, "mysql", "db_short"}}, []string{"look database " + db}},
		"a stranger on a server without a mark": {scene{databases: []string{db}, unmarked: true}, nil},
		"deleted since, and its data kept": {scene{databases: []string{db}, instances: recorded,
			listed: []store.InstanceCopy{left(copied("i", db, "small", before), after)}}, []string{"adopt retained data " + db}},
		"undeleted before the backup, and listed before that": {scene{databases: []string{db},
			instances: []store.RecordedInstance{instance("i", db, before)},
			listed:    []store.InstanceCopy{left(copied("i", db, "small", before), before.Add(-time.Hour))}}, nil},
		"created and deleted since, and its data kept": {scene{databases: []string{db},
			listed: []store.InstanceCopy{left(copied("i", db, "small", after), after)}}, []string{"adopt retained data " + db}},
		"deleted before": {scene{databases: []string{db}, retained: map[string]formerInstance{db: {"i", before}},
			listed: []store.InstanceCopy{copied("i", db, "small", before)}}, nil},
		"undeleted since": {scene{databases: []string{db}, retained: map[string]formerInstance{db: {"i", before}},
			listed: []store.InstanceCopy{copied("i", db, "small", after)}}, []string{"adopt instance " + db}},
		"deleted since, and undeleted as another one": {scene{databases: []string{db}, instances: recorded,
			listed: []store.InstanceCopy{copied("j", db, "small", after)}}, []string{"forget instance " + db, "adopt instance " + db}},
		"undeleted in the last minute": {scene{databases: []string{db}, retained: map[string]formerInstance{db: {"i", before}},
			accounts: []string{account, "u_other"}, locked: []string{"u_other"},
			grants: []mysqladmin.Grant{may(account, db), may("u_other", db)}}, []string{"look account " + account}},
	} {
		got, r := test.plan()
		assert.True(t, slices.Equal(got, test.want), "%s: %q, want %q", name, got, test.want)
		for _, i := range r.plan.Items {
			assert.False(t, i.Kind == freezeKind && !strings.Contains(i.Why, "mysql-broker backups restore BACKUP i"),
				"%s: nobody learns what to do: %s", name, i.Why)
		}
	}
}

func TestComparedAccounts(t *testing.T) {
	t.Parallel()
	const stranger = "u_bbbbbbbbbbbbbbbbbbbb"
	expired, due, retired, young := bound(store.Ready), bound(store.Ready), bound(""), bound(store.Ready)
	expired.Expired, due.GrantsDue, retired.BindingID, young.CreatedAt = true, true, "", after
	own := []mysqladmin.Grant{may(account, db)}
	for name, test := range map[string]struct {
		account  store.RecordedAccount
		accounts []string
		grants   []mysqladmin.Grant
		locked   bool
		want     []string
	}{
		"as recorded":                  {bound(store.Ready), []string{account}, nil, false, nil},
		"its privileges are not known": {bound(store.Ready), []string{account}, own, false, []string{"settle account " + account}},
		"of another database":          {bound(store.Ready), []string{account}, []mysqladmin.Grant{may(account, "other")}, false, nil},
		"reconciled anyway":            {due, []string{account}, own, false, nil},
		"unbound since":                {bound(store.Ready), nil, nil, false, []string{"forget binding " + account}},
		"unbound and locked since":     {bound(store.Ready), []string{account}, own, true, []string{"forget binding " + account}},
		"being unbound":                {bound(store.Ending), []string{account}, nil, false, []string{"shut binding " + account}},
		"expired since":                {expired, []string{account}, nil, false, []string{"shut binding " + account}},
		"being bound":                  {bound(store.Creating), []string{account}, nil, false, []string{"adopt binding " + account}},
		"bound in vain":                {bound(store.Creating), nil, nil, false, []string{"forget binding " + account}},
		"retired":                      {retired, []string{account}, nil, false, nil},
		"retired and gone":             {retired, nil, nil, false, nil},
		"bound during the hold":        {young, nil, nil, false, nil},
		"bound since": {bound(store.Ready), []string{account, stranger}, []mysqladmin.Grant{may(stranger, db), may(stranger, db)},
			false, []string{"shut account " + stranger}},
		"somebody else's": {bound(store.Ready), []string{account, stranger, "root"},
			[]mysqladmin.Grant{may(stranger, "other"), may("root", db)}, false, nil},
	} {
		s := scene{databases: []string{db}, instances: []store.RecordedInstance{instance("i", db, before)}, accounts: test.accounts,
			grants: test.grants, recorded: []store.RecordedAccount{test.account}}
		if test.locked {
			s.locked = []string{account}
		}
		got, r := s.plan()
		assert.True(t, slices.Equal(got, test.want), "%s: %q, want %q", name, got, test.want)
		assert.True(t, !r.plan.Blocked() && r.whole["i"], "%s: the plan is blocked, or the database is missing", name)
	}
}

// A task ends with the item of its instance or binding, and by itself if there is none.
func TestTasksThatEnd(t *testing.T) {
	t.Parallel()
	provision, unbind := store.Task{ID: 7, InstanceID: "i", Kind: store.Provision},
		store.Task{ID: 8, InstanceID: "i", BindingID: "b", Kind: store.Unbind}
	there := scene{databases: []string{db}, instances: []store.RecordedInstance{instance("i", db, before)},
		tasks: []store.Task{provision, unbind}, accounts: []string{account}, recorded: []store.RecordedAccount{bound(store.Ready)}}
	settled, unbound, deleted := there, there, there
	settled.grants = []mysqladmin.Grant{may(account, db)}
	unbound.accounts = nil
	deleted.databases, deleted.accounts = nil, nil
	for name, test := range map[string]struct {
		scene
		want []string
	}{
		"nothing has changed":     {there, []string{"end task task_7", "end task task_8"}},
		"privileges have changed": {settled, []string{"settle account " + account, "end task task_7", "end task task_8"}},
		"the binding is gone":     {unbound, []string{"forget binding " + account, "end task task_7"}},
		"the instance is gone":    {deleted, []string{"forget instance " + db}},
	} {
		got, _ := test.plan()
		assert.True(t, slices.Equal(got, test.want), "%s: %q, want %q", name, got, test.want)
	}
}

func TestComparedDedicatedServers(t *testing.T) {
	t.Parallel()
	at := store.DedicatedLocation("here", "d_1")
	for name, test := range map[string]struct {
		owned    bool
		c        store.InstanceCopy
		retained map[string]formerInstance
		ids      map[string]bool
		want     string
	}{
		"an instance has it":        {owned: true},
		"a stranger's":              {want: "look instance"},
		"retained":                  {retained: map[string]formerInstance{"d_1": {"i", before}}},
		"retained, and listed once": {c: copied("i", "db", "p", before), retained: map[string]formerInstance{"d_1": {"i", after}}},
		"retained, and listed so":   {c: left(copied("i", "db", "p", after), after), retained: map[string]formerInstance{"d_1": {"j", before}}},
		"of a deleted instance":     {c: left(copied("i", "db", "p", after), after), want: "adopt retained data"},
		"of an id that is recorded": {c: copied("i", "db", "p", after), ids: map[string]bool{"i": true}, want: "look instance"},
	} {
		r := &recovery{before: noon, gone: map[string]bool{}, whole: map[string]bool{}}
		r.compareUnowned(t.Context(), []store.Location{at}, map[store.Location]bool{at: test.owned},
			map[store.Location]store.InstanceCopy{at: test.c}, test.retained, test.ids)
		var got []string
		for _, i := range r.plan.Items {
			got = append(got, fmt.Sprintf("%s %s", i.Action, i.Kind))
		}
		assert.Equal(t, test.want, strings.Join(got, ", "), "%s: %q", name, got)
	}
}

// Servers that cannot be compared keep the hold, unless the operator leaves them out.
func TestBlocked(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	for name, add := range map[string]func(*recovery){
		"a shared server":    func(r *recovery) { r.unreachable("shared-1", down) },
		"a launcher":         func(r *recovery) { r.unreachable(store.DedicatedServers, down) },
		"a dedicated server": func(r *recovery) { r.silent("d_1", "i", down) },
	} {
		r := &recovery{}
		add(r)
		assert.True(t, r.plan.Blocked(), name)
		assert.Regexp(t, "refused.*--without|--without.*refused", r.plan.Items[0].Why, name)
		assert.NoError(t, r.plan.Items[0].Do(t.Context()), name)
	}
	marked, unmarked := &recovery{gone: map[string]bool{}}, &recovery{gone: map[string]bool{}}
	marked.forgetServer(instance("i", db, before), true)
	unmarked.forgetServer(instance("i", db, before), false)
	assert.True(t, marked.plan.Items[0].Action == Forget && marked.gone["i"] && unmarked.plan.Items[0].Action == Look &&
		!unmarked.gone["i"], "a missing server: %+v, %+v", marked.plan.Items, unmarked.plan.Items)
}
