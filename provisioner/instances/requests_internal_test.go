package instances

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/steps"
	"mysql-broker/store"
)

// expectRefusal fails the test unless err is a refusal of that kind with these words; no words stand for no error.
func expectRefusal(t *testing.T, what string, err error, code engine.Code, words ...string) {
	refusal, refused := errors.AsType[*engine.Error](err)
	assert.False(t, refused != (words != nil) || err != nil && !refused || refused && refusal.Code != code,
		"%s: %v", what, err)
	for _, word := range words {
		assert.False(t, refused && !strings.Contains(refusal.Sentence, word),
			"%s: %q does not say %q", what, refusal.Sentence, word)
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
		expectRefusal(t, test.charset+" "+test.collation, err, engine.Invalid, test.words...)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	small := plan.Plan{Name: "small", Limits: plan.Limits{Instances: 6, PerOrganization: 4}}
	is := &Instances{limits: plan.Limits{Instances: 8, PerOrganization: 7}}
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
		expectRefusal(t, what, is.within(small)(test.n), engine.Full, test.words...)
	}
	assert.Nil(t, (&Instances{}).within(plan.Plan{}), "instances are counted without a limit")
}

// An instance whose record was made again from the copy beside its server, without the SQL, is the one that was asked for.
func TestSameInstanceWithBootstrap(t *testing.T) {
	t.Parallel()
	q := engine.ProvisionRequest{Parameters: plan.InstanceParameters{Charset: "latin1", Bootstrap: "SELECT 1"}}
	for parameters, want := range map[string]bool{
		`{"charset":"latin1","bootstrap":"SELECT 1"}`:                                                                true,
		`{"charset":"latin1","bootstrap":"SELECT 2"}`:                                                                false,
		`{"charset":"latin1","bootstrap_sha256":"e004ebd5b5532a4b85984a62f8ad48a81aa3460c1ca07701f386135d72cdecf5"}`: true,
		`{"charset":"latin1","bootstrap_sha256":"00"}`:                                                               false,
		`{"charset":"latin1"}`: false,
	} {
		assert.Equal(t, want, sameInstance(store.Instance{Parameters: []byte(parameters)}, q), parameters)
	}
}

// A repeated update is recognized although its request has another trace.
func TestSameUpdateInAnotherTrace(t *testing.T) {
	t.Parallel()
	recorded := json.RawMessage(`{"later": true, "plan_id": "p", "trace": {"traceparent": "00-1-2-01"}}`)
	assert.True(t, sameUpdate(recorded, engine.Request{PlanID: "p"}) && !sameUpdate(recorded, engine.Request{PlanID: "q"}),
		"updates are not compared by what they ask for")
}

// The cleanup of an upgrade puts the earlier data back in a step of its own. Resizing the server back would do that, too,
// but not if the former plan was removed from the catalog.
func TestFailedUpgradeIsReverted(t *testing.T) {
	t.Parallel()
	to := plan.Plan{ID: "to", Kind: plan.Dedicated, Version: "2"}
	p := &Instances{Servers: &steps.Servers{Engine: &engine.Engine{Plans: plan.Set{to, {ID: "from", Kind: plan.Dedicated}}}}}
	for from, want := range map[string][]string{
		"from":    {"revert", "resize", "limit connections"},
		"removed": {"revert"},
	} {
		i := store.Instance{ID: "i", PlanID: from, Location: store.DedicatedLocation("process", "d")}
		var names []string
		for _, s := range p.updateWorkflow(i, engine.Request{PlanID: to.ID, Version: "2"}).Cleanup {
			names = append(names, s.Name)
		}
		assert.True(t, slices.Equal(names, want),
			"from the plan %s, the cleanup has the steps %q, want %q", from, names, want)
	}
}
