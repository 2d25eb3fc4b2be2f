package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mysql-broker/test/s3"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// backUp begins to back up an instance.
func (i instance) backUp(t *testing.T) testdrive.Response {
	t.Helper()
	return i.update(t, later, body{"parameters": body{"backup": "now"}})
}

// restored asks for an instance from a backup.
func (i instance) restored(t *testing.T, from string, fields body) testdrive.Response {
	t.Helper()
	all := body{"context": cloudFoundry, "parameters": body{"restore_from": from}}
	for name, value := range fields {
		all[name] = value
	}
	return i.provision(t, later, all)
}

// TestBackup backs up an instance to a real S3 service, changes its data, deletes it, and restores it.
func TestBackup(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		service := s3.Start(t)
		env := testdrive.Environment(t, s)
		without := startPlatform(t, s, env)
		service.Configure(env)
		p := startPlatform(t, s, env)
		source, c := p.cloneable(t, "shared-small")
		refused := source
		refused.platform = without
		expectRefusal(t, refused.backUp(t), 400, "object store")
		refused.id = uuid.NewString()
		expectRefusal(t, refused.restored(t, source.id, nil), 400, "object store")
		without.Kill(t)

		expectError(t, source.update(t, now, body{"parameters": body{"backup": "now"}}), "AsyncRequired")
		source.await(t, source.backUp(t).Expect(t, http.StatusAccepted).String("operation"))
		if all := accountsOf(t, p, c); len(all) != 1 {
			t.Errorf("the source has the accounts %q", all)
		}
		objects := service.Objects(t)
		if len(objects) != 3 || !strings.HasPrefix(objects[0], "mysql/"+source.id+"/b_") {
			t.Errorf("the bucket has %q", objects)
		}
		exec(t, c.open(t), "DELETE FROM items", "DROP VIEW names")
		for _, plan := range []string{"shared-small", "dedicated-small"} {
			i := p.newInstance(t, plan)
			expectError(t, i.provision(t, now, body{"context": cloudFoundry, "parameters": body{"restore_from": source.id}}),
				"AsyncRequired")
			i.await(t, i.restored(t, source.id, nil).Expect(t, http.StatusAccepted).String("operation"))
			i.restored(t, source.id, nil).Expect(t, http.StatusOK)
			expectClone(t, i)
		}
		source.deprovision(t, now).Expect(t, http.StatusOK)
		i := p.newInstance(t, "shared-small")
		i.await(t, i.restored(t, source.id, nil).Expect(t, http.StatusAccepted).String("operation"))
		expectClone(t, i)

		missing := uuid.NewString()
		for name, test := range map[string]struct {
			from   string
			fields body
		}{
			"missing":              {missing, nil},
			"another space":        {source.id, body{"space_guid": "another-space"}},
			"another organization": {source.id, body{"organization_guid": "another-organization"}},
			"no context":           {source.id, body{"context": nil}},
		} {
			r := p.newInstance(t, "shared-small").restored(t, test.from, test.fields)
			expectRefusal(t, r, 400)
			if want := fmt.Sprintf("There is no backup %s in this space.", test.from); r.String("description") != want {
				t.Errorf("%s: %q", name, r.String("description"))
			}
		}
	})
}
