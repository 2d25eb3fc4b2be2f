package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/inventory"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

// Names as the provisioner gives them.
const (
	aDatabase = "db_aaaaaaaaaaaaaaaaaaaa"
	anAccount = "u_aaaaaaaaaaaaaaaaaaaa"
	aServer   = "d_aaaaaaaaaaaaaaaaaaaa"
)

// told are the findings in the order of the report, with "!" where Repair can repair them.
func told(findings []Finding) (all []string) {
	slices.SortFunc(findings, compareFindings)
	for _, f := range findings {
		text := fmt.Sprintf("%s %s %s", f.Problem, f.Kind, f.Name)
		if f.Repairable {
			text += "!"
		}
		all = append(all, text)
	}
	return all
}

func TestCompare(t *testing.T) {
	t.Parallel()
	database := store.Resource{Kind: store.DatabaseResource, Server: "shared-1", Name: aDatabase, InstanceID: "i", Live: true, Expected: true}
	account := store.Resource{Kind: store.AccountResource, Server: "shared-1", Name: anAccount, InstanceID: "i", Live: true, Expected: true}
	as := func(r store.Resource, change func(*store.Resource)) store.Resource { change(&r); return r }
	dead := func(r *store.Resource) { r.Live, r.Expected = false, false }
	busy := func(r *store.Resource) { r.Expected = false }
	for what, test := range map[string]struct {
		recorded         []store.Resource
		things           []string
		want             []string
		gone, thereAgain int
	}{
		"as recorded":           {[]store.Resource{database, account}, []string{aDatabase, anAccount}, nil, 0, 0},
		"nothing needs it":      {[]store.Resource{as(database, dead)}, []string{aDatabase}, []string{"orphan database " + aDatabase + "!"}, 0, 0},
		"it is gone in the end": {[]store.Resource{as(database, dead)}, nil, nil, 1, 0},
		"it was not there before": {[]store.Resource{as(database, func(r *store.Resource) { dead(r); r.SeenGone = true })}, []string{aDatabase},
			[]string{"orphan database " + aDatabase + "!"}, 0, 1},
		"an account is missing": {[]store.Resource{database, account}, []string{aDatabase}, []string{"missing account " + anAccount + "!"}, 0, 0},
		"a database is missing": {[]store.Resource{database}, nil, []string{"missing database " + aDatabase}, 0, 0},
		"both are missing": {[]store.Resource{database, account}, nil,
			[]string{"missing database " + aDatabase, "missing account " + anAccount}, 0, 0},
		"an operation is in progress": {[]store.Resource{as(database, busy), as(account, busy)}, nil, nil, 0, 0},
		"its creation failed": {[]store.Resource{as(database, func(r *store.Resource) { r.Expected, r.Failed = false, true })}, []string{aDatabase},
			[]string{"kept database " + aDatabase}, 0, 0},
		"its creation failed, and it is not there": {[]store.Resource{as(database, func(r *store.Resource) { r.Expected, r.Failed = false, true })},
			nil, nil, 0, 0},
		"retained data is missing": {[]store.Resource{as(database, func(r *store.Resource) { r.Expected, r.Retained = false, "r_1" })}, nil,
			[]string{"missing database " + aDatabase}, 0, 0},
		"retained data was missing already": {[]store.Resource{as(database, func(r *store.Resource) {
			r.Expected, r.Retained, r.SeenGone = false, "r_1", true
		})}, nil, nil, 0, 0},
		"retained data is there again": {[]store.Resource{as(database, func(r *store.Resource) {
			r.Expected, r.Retained, r.SeenGone = false, "r_1", true
		})}, []string{aDatabase}, nil, 0, 1},
		"a name like the broker's": {nil, []string{aDatabase, anAccount, "mysql", "db_short"},
			[]string{"unrecorded database " + aDatabase, "unrecorded account " + anAccount}, 0, 0},
	} {
		l := &comparison{server: "shared-1", holds: contents{things: map[thing]bool{}}, lost: map[string]bool{}, unseen: map[string][]error{}}
		for _, name := range test.things {
			kind := store.DatabaseResource
			if name[0] == 'u' {
				kind = store.AccountResource
			}
			l.holds.add(kind, []string{name})
		}
		gone, there := l.compare(test.recorded)
		l.end()
		got := told(l.report.Findings)
		assert.True(t, slices.Equal(got, test.want) && len(gone) == test.gone && len(there) == test.thereAgain,
			"%s: %q, %d gone, %d there again", what, got, len(gone), len(there))
		assert.True(t, slices.Equal(l.report.Reachable, []string{"shared-1"}) && l.report.Compared.SharedServers == 1,
			"%s: %+v", what, l.report)
	}
}

// What is on a server that does not answer is neither missing nor gone.
func TestCompareWithTheSilent(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	own := store.Resource{Kind: store.DedicatedResource, Name: aServer, Launcher: "near", Live: true, Expected: true}
	far, ended, running := own, own, own
	far.Launcher, ended.Launcher, ended.Live, ended.Expected = "far", "removed", false, false
	running.Name = "d_bbbbbbbbbbbbbbbbbbbb"
	for what, test := range map[string]struct {
		holds   contents
		all     []store.Resource
		want    []string
		running int
	}{
		"one of two launchers": {contents{asked: map[string]error{"near": nil, "far": down}, things: map[thing]bool{
			{store.DedicatedResource, "near", running.Name}: false}}, []store.Resource{own, far, running},
			[]string{"missing dedicated server " + aServer, "unreachable launcher far"}, 1},
		"a launcher that was removed": {contents{asked: map[string]error{"near": nil}}, []store.Resource{far}, []string{"unreachable launcher far"}, 0},
		"with nothing left there":     {contents{asked: map[string]error{"near": nil}}, []store.Resource{ended}, nil, 0},
		"all":                         {contents{err: down}, []store.Resource{own}, []string{"unreachable launcher near"}, 0},
	} {
		l := &comparison{server: store.DedicatedServers, holds: test.holds, lost: map[string]bool{}, unseen: map[string][]error{}}
		gone, there := l.compare(test.all)
		seen := l.running(test.all)
		l.end()
		got := told(l.report.Findings)
		assert.True(t, slices.Equal(got, test.want) && len(gone)+len(there) == 0 && len(seen) == test.running,
			"%s: %q, %d gone, %d run", what, got, len(gone), len(seen))
	}
}

func TestComparedAccounts(t *testing.T) {
	t.Parallel()
	instance := store.RecordedInstance{ID: "i", State: store.Ready, Database: aDatabase}
	own := store.RecordedAccount{InstanceID: "i", BindingID: "b", State: store.Ready, Account: anAccount, Role: "admin"}
	busy, due, retired, ending := instance, own, own, own
	busy.Busy, due.GrantsDue, retired.BindingID, ending.State = true, true, "", store.Ending
	has := mysqladmin.Grant{Account: anAccount, Database: aDatabase}
	for what, test := range map[string]struct {
		server    string
		there     bool
		grants    []mysqladmin.Grant
		instances []store.RecordedInstance
		accounts  []store.RecordedAccount
		want      []string
	}{
		"as recorded":              {"s", true, []mysqladmin.Grant{has}, []store.RecordedInstance{instance}, []store.RecordedAccount{own}, nil},
		"without privileges":       {"s", true, nil, []store.RecordedInstance{instance}, []store.RecordedAccount{own}, []string{"deviating account " + anAccount + "!"}},
		"on a dedicated server":    {"", true, nil, []store.RecordedInstance{instance}, []store.RecordedAccount{own}, []string{"deviating account " + anAccount}},
		"missing there":            {"", false, nil, []store.RecordedInstance{instance}, []store.RecordedAccount{own}, []string{"missing account " + anAccount}},
		"missing elsewhere":        {"s", false, nil, []store.RecordedInstance{instance}, []store.RecordedAccount{own}, nil}, // see TestCompare
		"reconciled anyway":        {"s", true, nil, []store.RecordedInstance{instance}, []store.RecordedAccount{due}, nil},
		"an operation in progress": {"s", true, nil, []store.RecordedInstance{busy}, []store.RecordedAccount{own}, nil},
		"being unbound":            {"s", true, nil, []store.RecordedInstance{instance}, []store.RecordedAccount{ending}, nil},
		"retired":                  {"s", true, nil, []store.RecordedInstance{instance}, []store.RecordedAccount{retired}, nil},
		"without a record":         {"s", true, []mysqladmin.Grant{has}, []store.RecordedInstance{instance}, nil, []string{"stray account " + anAccount}},
		"of somebody else":         {"s", true, []mysqladmin.Grant{has}, nil, nil, nil},
	} {
		holds := inventory.Holdings{Grants: test.grants}
		if test.there {
			holds.Accounts = []string{anAccount}
		}
		got := told(accounts(test.server, holds, test.instances, test.accounts))
		assert.Equal(t, test.want, got, what)
	}
	locked := inventory.Holdings{Accounts: []string{anAccount}, Locked: []string{anAccount}, Grants: []mysqladmin.Grant{has}}
	expired := own
	expired.Expired = true
	assert.Equal(t, []string{"deviating account " + anAccount + "!"},
		told(accounts("s", locked, []store.RecordedInstance{instance}, []store.RecordedAccount{own})))
	assert.Nil(t, accounts("s", locked, []store.RecordedInstance{instance}, []store.RecordedAccount{expired}))
	mixture := inventory.Holdings{Accounts: []string{anAccount}, Mixed: map[string]string{instance.Database: "b_1"}}
	got := accounts("s", mixture, []store.RecordedInstance{instance}, []store.RecordedAccount{own})
	assert.True(t, len(got) == 1 && got[0].Kind == store.DatabaseResource && !got[0].Repairable &&
		strings.Contains(got[0].ToDo, "restore b_1 "+instance.ID),
		"a mixture, whose accounts must not get their privileges back: %+v", got)
	assert.Nil(t, accounts("s", mixture, []store.RecordedInstance{busy}, []store.RecordedAccount{own}), "being restored")
}

// restore_to_time goes by the clocks of dedicated servers.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	r := store.Resource{Kind: store.DedicatedResource, Name: aServer, InstanceID: "i"}
	for ahead, want := range map[time.Duration][]string{0: nil, time.Minute: nil, -time.Minute: nil,
		2 * time.Hour: {"deviating clock " + aServer}, -time.Minute - time.Second: {"deviating clock " + aServer}} {
		assert.Equal(t, want, told(wrongClock(r, ahead)), ahead)
	}
}
