package operators

import (
	"net/http"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestCloneTooLarge copies an instance that is over its quota: only a plan that allows the data takes them.
func TestCloneTooLarge(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		p := testdrive.StartPlatform(t, private, testdrive.QuotaEnvironment(t, private))
		source := p.Provisioned(t, "shared-small", body{"context": testdrive.CloudFoundry})
		_, c := source.Bound(t, nil)
		testdrive.Overfill(t, c.Open(t), testdrive.QuotaSmall)
		// Files grow by steps, and may have the size of the quota exactly.
		testdrive.Exec(t, p.Admin(t), "INSERT INTO `"+c.Database+"`.filler (content) VALUES (REPEAT('x', 8 << 20))")
		testdrive.ExpectRefusal(t, p.NewInstance(t, "shared-small").Clone(t, source.ID, nil), http.StatusBadRequest,
			"Delete data, or choose a larger plan.")
		i := p.NewInstance(t, "shared-large")
		i.Await(t, i.Clone(t, source.ID, nil).Expect(t, http.StatusAccepted).String("operation"))
		_, made := i.Bound(t, nil)
		count := "SELECT COUNT(*) FROM filler"
		if got, want := testdrive.Read[int](t, made.Open(t), count), testdrive.Read[int](t, c.Open(t), count); got != want {
			t.Errorf("the copy has %d rows, the source %d", got, want)
		}
		if _, err := made.Open(t).ExecContext(t.Context(), testdrive.InsertOne); err != nil {
			t.Errorf("the copy is below the quota of its plan: %v", err)
		}
	})
}
