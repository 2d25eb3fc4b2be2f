package mysqladmin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/testdrive"
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

// A node that is away does not keep a database from being copied. Only that node knows which of the events it runs that
// are disabled on the others.
func TestRunningEventsWithoutANode(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		away := fmt.Sprintf("127.0.0.1:%d", testdrive.FreePort(t))
		read := func(nodes ...string) (running, unknown []string, err error) {
			cfg := f.config
			cfg.Nodes = nodes
			server := f.open(cfg)
			return server.RunningEvents(t.Context(), f.database)
		}
		running, unknown, err := read(f.config.Addr, away)
		assert.True(t, err == nil && len(running) == 0 && len(unknown) == 0,
			"without events, these run: %q, and perhaps %q, %v", running, unknown, err)
		running, unknown, err = read(away)
		assert.True(t, mysqladmin.CannotReach(err),
			"if no node answers, these run: %q, and perhaps %q, %v", running, unknown, err)
		for name, status := range map[string]string{"here": "ENABLE", "off": "DISABLE", "elsewhere": "DISABLE ON SLAVE"} {
			f.exec(f.root, fmt.Sprintf("CREATE EVENT `%s`.%s ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01' %s DO DO 1",
				f.database, name, status))
		}
		for what, test := range map[string]struct{ nodes, unknown []string }{
			"all nodes":   {[]string{f.config.Addr}, nil},
			"one is away": {[]string{away, f.config.Addr}, []string{"elsewhere"}},
		} {
			running, unknown, err := read(test.nodes...)
			assert.True(t, err == nil && slices.Equal(running, []string{"here"}) && slices.Equal(unknown, test.unknown),
				"%s: these events run: %q, and perhaps %q, %v", what, running, unknown, err)
		}
	})
}
