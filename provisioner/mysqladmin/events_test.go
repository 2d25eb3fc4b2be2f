package mysqladmin_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/plan"
)

// Without events, a role has all its other privileges, and RestorePrivileges revokes EVENT.
func TestRolesWithoutEvents(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		const create = "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1"
		for _, role := range everyRole {
			with := f.account(role)
			all := strings.Split(f.privileges(with.Name), ",")
			without := with
			without.Name, without.Events = uniqueName("u_"), false
			f.must(f.session.Accounts.Create(t.Context(), without))
			want := strings.Join(slices.DeleteFunc(all, func(p string) bool { return p == "EVENT" }), ",")
			assert.Equal(t, want, f.privileges(without.Name), "%s without events", role)
			conn := f.connect(without)
			f.refused(conn, create, "DROP EVENT e", "ALTER EVENT e DISABLE")

			f.must(f.session.Writes.RestorePrivileges(t.Context(), with.Name, role, false, f.database))
			assert.Equal(t, want, f.privileges(with.Name), "%s released without events", role)
			f.must(f.session.Writes.RestorePrivileges(t.Context(), without.Name, role, true, f.database))
			if role != plan.ReadOnly {
				f.exec(f.connect(without), create, "DROP EVENT e")
			}
		}
	})
}
