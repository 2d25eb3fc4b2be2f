package bindings

import (
	"cmp"
	"strings"
	"testing"

	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

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
			if err == nil || !strings.Contains(err.Error(), `"role" must be at most `+string(cmp.Or(test.most, plan.ReadOnly))) {
				t.Errorf("%s: %v", what, err)
			}
		} else if err != nil || got.Parameters.Role != test.want {
			t.Errorf("%s: %s, %v", what, got.Parameters.Role, err)
		}
	}
}
