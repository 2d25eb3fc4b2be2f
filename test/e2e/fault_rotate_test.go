package e2e

import (
	"net/http"
	"strings"
	"testing"

	"mysql-broker/store"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A rotation may die at any moment. One of the two recorded passwords works, brokers find out which, and the next
// rotation completes the change.
func TestFaultRotationThatDied(t *testing.T) {
	t.Parallel()
	moments := map[string]func(t *testing.T, env map[string]string, i testdrive.Instance, c testdrive.Credentials){
		"before the server knows": func(t *testing.T, env map[string]string, i testdrive.Instance, _ testdrive.Credentials) {
			recordNext(t, env, i.ID, "the-next-password")
		},
		"when the server knows": func(t *testing.T, env map[string]string, i testdrive.Instance, c testdrive.Credentials) {
			before := recordNext(t, env, i.ID, "the-next-password")
			testdrive.Exec(t, testdrive.Open(t, adminOf(t, c, before)), "ALTER USER broker_admin@'%' IDENTIFIED BY 'the-next-password'")
		},
		"while the server is told": func(t *testing.T, env map[string]string, i testdrive.Instance, c testdrive.Credentials) {
			admin := testdrive.Open(t, adminOf(t, c, recorded(t, env, i.ID).AdminPassword))
			release := testdrive.Stall(t, admin)
			rotation := testdrive.Launch(t, env, "rotate-admin-passwords")
			testdrive.AwaitStatement(t, admin, "ALTER USER")
			rotation.Kill(t)
			release()
		},
	}
	for name, die := range moments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
				env := testdrive.Environment(t, server)
				p := testdrive.StartPlatform(t, server, env)
				i := p.Provisioned(t, "dedicated-small", nil)
				b, c := i.Bound(t, nil)
				before := recorded(t, env, i.ID).AdminPassword
				die(t, env, i, c)
				if recorded(t, env, i.ID).NextAdminPassword == "" {
					t.Fatal("no next password is recorded")
				}

				i.Bound(t, nil)
				testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusOK)
				operation := i.UpdatePlan(t, testdrive.Async, "dedicated-large").Expect(t, http.StatusAccepted).String("operation")
				for _, shown := range i.Await(t, operation) {
					if strings.Contains(shown, "(5 of") {
						t.Errorf("more stages are shown than there are: %q", shown)
					}
				}
				next := recorded(t, env, i.ID).NextAdminPassword
				p.Seen.Add(before, next)
				rotateAdmin(t, env, i.ID).Expect(t, 0)
				after := recorded(t, env, i.ID)
				if after.AdminPassword != next || after.NextAdminPassword != "" {
					t.Error("the rotation was not completed")
				}
				_, c = i.Bound(t, nil)
				testdrive.ExpectRefused(t, adminOf(t, c, before))
				testdrive.Open(t, adminOf(t, c, next))
			})
		})
	}
}

// recordNext does what a rotation does first, and returns the password that the server has.
func recordNext(t *testing.T, env map[string]string, id, next string) (present string) {
	t.Helper()
	present = recorded(t, env, id).AdminPassword
	if err := openStore(t, env).InTx(t.Context(), func(tx *store.Tx) error {
		return tx.SetNextAdminPassword(id, next)
	}); err != nil {
		t.Fatal(err)
	}
	return present
}
