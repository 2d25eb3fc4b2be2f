package e2e

import (
	"net/http"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Requests that arrive after a dedicated server is destroyed and before its instance's deletion ends get a
// ConcurrencyError.
func TestRequestsAfterAServerIsDestroyed(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := testdrive.Environment(t, s)
		faults := testdrive.NewFaults(t, env)
		p := startPlatform(t, s, env)
		i := p.makeOwn(t, "dedicated-small")
		b, _ := i.bound(t, nil)

		destroyed, goOn := holdAt(t, faults, "destroy: moved away")
		operation := i.deprovision(t, later).Expect(t, http.StatusAccepted).String("operation")
		testdrive.Receive(t, destroyed, "the server is destroyed")
		expectError(t, b.fetch(t), "ConcurrencyError")
		expectError(t, b.bind(t, nil), "ConcurrencyError")
		expectError(t, i.updatePlan(t, later, "dedicated-large"), "ConcurrencyError")
		goOn()
		i.await(t, operation)
		b.fetch(t).Expect(t, http.StatusNotFound)
	})
}
