package operators

import (
	"net/http"
	"strings"
	"testing"

	"mysql-broker/store"
	"mysql-broker/test/testdrive"
)

// A rotation may die at any moment. One of the two recorded passwords works, brokers find out which, and the next
// rotation completes the change.
func TestFaultRotationThatDied(t *testing.T) {
	p, env := testdrive.OnePlatform(t)
	for name, told := range map[string]bool{"before the server knows": false, "when the server knows": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := p.Provisioned(t, "dedicated-small", nil)
			b, c := i.Bound(t, nil)
			before := recordNext(t, env, i.ID, "the-next-password")
			if told {
				testdrive.Exec(t, testdrive.Open(t, adminOf(t, c, before)), "ALTER USER broker_admin@'%' IDENTIFIED BY 'the-next-password'")
			}

			i.Bound(t, nil)
			testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusOK)
			operation := i.UpdatePlan(t, testdrive.Async, "dedicated-large").Expect(t, http.StatusAccepted).String("operation")
			for _, shown := range i.Await(t, operation) {
				if strings.Contains(shown, "(5 of") {
					t.Errorf("more stages are shown than there are: %q", shown)
				}
			}
			p.Seen.Add(before, "the-next-password")
			testdrive.RotateAdmin(t, env, i.ID).Expect(t, 0)
			if after := recorded(t, env, i.ID); after.AdminPassword != "the-next-password" || after.NextAdminPassword != "" {
				t.Error("the rotation was not completed")
			}
			_, c = i.Bound(t, nil)
			testdrive.ExpectRefused(t, adminOf(t, c, before))
			testdrive.Open(t, adminOf(t, c, "the-next-password"))
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
