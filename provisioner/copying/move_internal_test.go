package copying

import (
	"testing"

	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// An instance keeps its number of servers, whatever its plan says by now.
func TestKeepsMembers(t *testing.T) {
	t.Parallel()
	single, trio := plan.Plan{Name: "single", MemoryMB: 512}, plan.Plan{Name: "trio", Members: 3, MemoryMB: 512}
	large := plan.Plan{Name: "large", Members: 3, MemoryMB: 1024}
	group := store.Instance{Endpoint: &store.Endpoint{Members: []string{"a:1", "b:2", "c:3"}}}
	for what, c := range map[string]struct {
		of       store.Instance
		from, to plan.Plan
		refused  bool
	}{
		"another size":                    {group, trio, large, false},
		"from three to one":               {group, trio, single, true},
		"from one to three":               {store.Instance{Endpoint: &store.Endpoint{}}, single, trio, true},
		"its plan has lost the members":   {group, single, single, true},
		"its plan has members only now":   {store.Instance{Endpoint: &store.Endpoint{}}, trio, trio, true},
		"its endpoint is not recorded":    {store.Instance{}, trio, large, false},
		"another size of a single server": {store.Instance{Endpoint: &store.Endpoint{}}, single, single, false},
	} {
		if err := KeepsMembers(c.of, c.from, c.to); (err != nil) != c.refused {
			t.Errorf("%s: %v", what, err)
		}
	}
}
