package provisioner

import (
	"cmp"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// expectRefusal fails the test unless err is a refusal of that kind with these words; no words stand for no error.
func expectRefusal(t *testing.T, what string, err error, code Code, words ...string) {
	t.Helper()
	refusal, refused := errors.AsType[*Error](err)
	if refused != (words != nil) || err != nil && !refused || refused && refusal.Code != code {
		t.Errorf("%s: %v", what, err)
	}
	for _, word := range words {
		if refused && !strings.Contains(refusal.Sentence, word) {
			t.Errorf("%s: %q does not say %q", what, refusal.Sentence, word)
		}
	}
}

func TestPlausibleCharset(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		charset, collation string
		words              []string
	}{
		{"", "", nil},
		{"utf8mb4", "", nil},
		{"", "latin1_german1_ci", nil},
		{"binary", "binary", nil},
		{"latin1", "latin1_german1_ci", nil},
		{"klingon", "", []string{`"charset" is "klingon"`}},
		{"", "klingon_ci", []string{`"collation" is "klingon_ci"`}},
		{"utf8mb4", "latin1_german1_ci", []string{"does not belong to", `"utf8mb4"`}},
	} {
		err := plausibleCharset(plan.InstanceParameters{Charset: test.charset, Collation: test.collation})
		expectRefusal(t, test.charset+" "+test.collation, err, Invalid, test.words...)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	small := plan.Plan{Name: "small", Limits: plan.Limits{Instances: 6, PerOrganization: 4}}
	p := &Provisioner{limits: plan.Limits{Instances: 8, PerOrganization: 7}}
	for what, test := range map[string]struct {
		n     store.InstanceCounts // with the new one
		words []string
	}{
		"the last that is allowed": {store.InstanceCounts{OfPlanAndOrganization: 4, OfPlan: 6, OfOrganization: 7, All: 8}, nil},
		"of the plan and organization": {store.InstanceCounts{OfPlanAndOrganization: 5, OfPlan: 5, OfOrganization: 5, All: 5},
			[]string{"Your organization has 4", "of plan small, and may have 4"}},
		"of the plan": {store.InstanceCounts{OfPlanAndOrganization: 1, OfPlan: 7, OfOrganization: 1, All: 7},
			[]string{"This service broker has 6", "of plan small, and may have 6"}},
		"of the organization": {store.InstanceCounts{OfPlanAndOrganization: 1, OfPlan: 1, OfOrganization: 8, All: 8},
			[]string{"Your organization has 7 service instances, and may have 7"}},
		"of all": {store.InstanceCounts{OfPlanAndOrganization: 1, OfPlan: 1, OfOrganization: 1, All: 9},
			[]string{"This service broker has 8 service instances, and may have 8"}},
		"a limit that was lowered": {store.InstanceCounts{OfPlan: 10}, []string{"has 9", "may have 6"}},
	} {
		expectRefusal(t, what, p.within(small)(test.n), Full, test.words...)
	}
	if (&Provisioner{}).within(plan.Plan{}) != nil {
		t.Error("instances are counted without a limit")
	}
}

func TestRolesOfOtherSpaces(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		space, predecessor string
		most, role         plan.Role
		named              bool
		want               plan.Role // "" for a refusal
	}{
		"the instance's own space":       {space: "s", role: plan.Admin, named: true, want: plan.Admin},
		"no space is known":              {role: plan.ReadWrite, want: plan.ReadWrite},
		"another space, no role":         {space: "other", role: plan.ReadWrite, want: plan.ReadOnly},
		"another space reads":            {space: "other", role: plan.ReadOnly, named: true, want: plan.ReadOnly},
		"another space asks to write":    {space: "other", role: plan.ReadWrite, named: true},
		"the plan lets it write":         {space: "other", most: plan.ReadWrite, role: plan.ReadWrite, named: true, want: plan.ReadWrite},
		"it asks for more than the plan": {space: "other", most: plan.ReadWrite, role: plan.Admin, named: true},
		"a successor has what it had":    {space: "other", predecessor: "b", role: plan.ReadWrite, want: plan.ReadWrite},
	} {
		got, err := limitRole(store.Instance{SpaceGUID: "s"}, plan.Plan{Name: "small", SharedRole: test.most}, BindRequest{
			SpaceGUID: test.space, Predecessor: test.predecessor, Parameters: plan.BindingParameters{Role: test.role, RoleNamed: test.named}})
		if test.want == "" {
			expectRefusal(t, what, err, Invalid, `"role" must be at most `+string(cmp.Or(test.most, plan.ReadOnly)))
		} else if err != nil || got.Parameters.Role != test.want {
			t.Errorf("%s: %s, %v", what, got.Parameters.Role, err)
		}
	}
}

// Why no server took a database, from the reason that helps most.
func TestNoPlacement(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	foreign := &flavourError{of: mysqladmin.Flavour{}}
	charset := &mysqladmin.CharsetError{Parameter: "charset", Reason: "is unknown"}
	full := 0
	placer := &placer{log: slog.New(slog.DiscardHandler), onFull: func() { full++ }}
	for what, test := range map[string]struct {
		placement
		code  Code
		words string
	}{
		"all are full":                     {placement{}, Full, "no room"},
		"the rest cannot be used":          {placement{unusable: down}, Unavailable, "just now"},
		"the rest is of another flavour":   {placement{foreign: foreign}, Invalid, "Choose a dedicated plan"},
		"one is down, one another flavour": {placement{foreign: foreign, unusable: down}, Unavailable, "just now"},
		"none has the character set":       {placement{refused: charset, unusable: down, foreign: foreign}, Invalid, `"charset" is unknown.`},
	} {
		test.placer = placer
		expectRefusal(t, what, test.failure(), test.code, test.words)
	}
	if full != 1 {
		t.Errorf("full servers were counted %d times", full)
	}
	if err := (&placement{failed: down}).failure(); err != down {
		t.Errorf("PostgreSQL does not answer: %v", err)
	}
}

func TestPeriods(t *testing.T) {
	t.Parallel()
	at := func(seconds float64) time.Time {
		return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
	}
	window := func(log string, from, until float64) store.Window {
		return store.Window{LogID: log, From: at(from), Until: at(until)}
	}
	for what, test := range map[string]struct {
		all  []store.Window
		want string
	}{
		"within full seconds": {[]store.Window{window("l", 0.2, 9.9)}, "between 2026-01-01T00:00:01Z and 2026-01-01T00:00:09Z"},
		"two backups of one archive": {[]store.Window{window("l", 5, 9), window("l", 1, 9)},
			"between 2026-01-01T00:00:01Z and 2026-01-01T00:00:09Z"},
		"two archives": {[]store.Window{window("l", 5, 9), window("k", 1, 3)},
			"between 2026-01-01T00:00:05Z and 2026-01-01T00:00:09Z, or between 2026-01-01T00:00:01Z and 2026-01-01T00:00:03Z"},
		"less than a second": {[]store.Window{window("l", 5.1, 5.9)}, ""},
	} {
		if got := possible(test.all); got != test.want {
			t.Errorf("%s: %q", what, got)
		}
	}
}

// A deletion is tried again only where it left the instance or binding.
func TestFailedToDelete(t *testing.T) {
	t.Parallel()
	deletion := store.Task{Kind: store.Deprovision}
	unbind := store.Task{Kind: store.Unbind, BindingID: "b"}
	instance := func(state string) store.Beginning { return store.Beginning{Instance: store.Instance{State: state}} }
	binding := func(state string) store.Beginning { return store.Beginning{Binding: &store.Binding{State: state}} }
	busy, other := binding(store.Ending), binding(store.Ending)
	busy.Active, other.Active = []store.Task{{ID: 7}}, []store.Task{{ID: 7, BindingID: "another"}}
	for what, test := range map[string]struct {
		there  store.Beginning
		failed store.Task
		says   string // "" if it may be tried again
	}{
		"as it was left":              {instance(store.DeleteFailed), deletion, ""},
		"the instance works again":    {instance(store.Ready), deletion, `the service instance is "ready"`},
		"a binding as it was left":    {binding(store.Ending), unbind, ""},
		"the binding works again":     {binding(store.Ready), unbind, `the service binding is "ready"`},
		"the binding is gone":         {store.Beginning{}, unbind, store.ErrNotFound.Error()},
		"the instance is busy":        {busy, unbind, "task_7 is in progress"},
		"another binding is changing": {other, unbind, ""},
	} {
		err := failedToDelete(test.there, test.failed)
		if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
