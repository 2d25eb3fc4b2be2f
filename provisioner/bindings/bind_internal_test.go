package bindings

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/steps"
	"mysql-broker/store"
)

// A binding ends when its request says, and at the latest when its plan does. A successor has what its predecessor had.
func TestNewBinding(t *testing.T) {
	t.Parallel()
	const hours8, hour = plan.TTL(8 * time.Hour), plan.TTL(time.Hour)
	bs := &Bindings{Servers: &steps.Servers{Engine: &engine.Engine{Plans: plan.Set{{ID: "free", Name: "free"},
		{ID: "limited", Name: "limited", MaxBindingTTL: hour}}}}}
	now := time.Now()
	had := plan.BindingParameters{Role: plan.ReadOnly, TLS: plan.TLSOptional, TTL: hours8}
	before := store.Binding{ID: "before", State: store.Ready, Role: string(had.Role), AppGUID: "app", Parameters: engine.Encode(had)}
	with := func(change func(*store.Binding)) *store.Binding {
		b := before
		change(&b)
		return &b
	}
	successor := BindRequest{Predecessor: "before", Inherits: true}
	asked := func(p plan.BindingParameters) BindRequest { return BindRequest{Parameters: p} }
	const none = "is not that of a service binding of this service instance"
	for what, test := range map[string]struct {
		plan   string
		q      BindRequest
		before *store.Binding
		lasts  plan.TTL // 0 for ever
		says   string   // in a refusal
	}{
		"for ever":                           {plan: "free"},
		"for a while":                        {plan: "free", q: asked(had), lasts: hours8},
		"for as long as the plan allows":     {plan: "limited", lasts: hour},
		"for longer than the plan allows":    {plan: "limited", q: asked(had), says: `"ttl" must be at most 1h`},
		"a successor":                        {plan: "free", q: successor, before: &before, lasts: hours8},
		"after the maximum was lowered":      {plan: "limited", q: successor, before: &before, lasts: hour},
		"with the predecessor's parameters":  {plan: "free", q: BindRequest{Predecessor: "before", Parameters: had}, before: &before, lasts: hours8},
		"with other parameters":              {plan: "free", q: BindRequest{Predecessor: "before"}, before: &before, says: "Leave out other ones"},
		"of nobody":                          {plan: "free", q: successor, says: none},
		"of itself":                          {plan: "free", q: BindRequest{BindingID: "before", Predecessor: "before"}, before: &before, says: "its own"},
		"of one that ends":                   {plan: "free", q: successor, before: with(func(b *store.Binding) { b.State = store.Ending }), says: none},
		"of one that has expired":            {plan: "free", q: successor, before: with(func(b *store.Binding) { b.ExpiresAt = &now }), says: none},
		"of one that is being created":       {plan: "free", q: successor, before: with(func(b *store.Binding) { b.State = store.Creating }), says: engine.ErrBusy.Error()},
		"in another space":                   {plan: "free", q: BindRequest{Predecessor: "before", SpaceGUID: "other"}, before: &before, says: none},
		"of one of another space":            {plan: "free", q: BindRequest{Predecessor: "before", SpaceGUID: "s"}, before: with(func(b *store.Binding) { b.SpaceGUID = "other" }), says: none},
		"of one of another space, unsaid so": {plan: "free", q: successor, before: with(func(b *store.Binding) { b.SpaceGUID = "other" }), lasts: hours8},
	} {
		b, err := bs.newBinding(store.Beginning{Instance: store.Instance{PlanID: test.plan, SpaceGUID: "s"}, Predecessor: test.before,
			Now: now}, test.q)
		if test.says != "" {
			assert.ErrorContains(t, err, test.says, what)
			continue
		}
		require.NoError(t, err, what)
		if assert.Equal(t, test.lasts != 0, b.ExpiresAt != nil, what) && b.ExpiresAt != nil {
			assert.Equal(t, time.Duration(test.lasts), b.ExpiresAt.Sub(now), what)
		}
		if test.before != nil {
			assert.Equal(t, []string{test.before.Role, test.before.AppGUID, test.before.SpaceGUID}, []string{b.Role, b.AppGUID, b.SpaceGUID}, what)
		}
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
		"the instance's own space":    {space: "s", role: plan.Admin, named: true, want: plan.Admin},
		"no space is known":           {role: plan.ReadWrite, want: plan.ReadWrite},
		"another space, no role":      {space: "other", role: plan.ReadWrite, want: plan.ReadOnly},
		"another space reads":         {space: "other", role: plan.ReadOnly, named: true, want: plan.ReadOnly},
		"another space asks to write": {space: "other", role: plan.ReadWrite, named: true},
		"the plan lets it write": {space: "other", most: plan.ReadWrite, role: plan.ReadWrite, named: true,
			want: plan.ReadWrite},
		"it asks for more than the plan": {space: "other", most: plan.ReadWrite, role: plan.Admin, named: true},
		"a successor has what it had":    {space: "other", predecessor: "b", role: plan.ReadWrite, want: plan.ReadWrite},
	} {
		got, err := limitRole(store.Instance{SpaceGUID: "s"}, plan.Plan{Name: "small", SharedRole: test.most}, BindRequest{
			SpaceGUID: test.space, Predecessor: test.predecessor,
			Parameters: plan.BindingParameters{Role: test.role, RoleNamed: test.named}})
		if test.want == "" {
			assert.ErrorContains(t, err, `"role" must be at most `+string(cmp.Or(test.most, plan.ReadOnly)), what)
		} else if err != nil || got.Parameters.Role != test.want {
			t.Errorf("%s: %s, %v", what, got.Parameters.Role, err)
		}
	}
}
