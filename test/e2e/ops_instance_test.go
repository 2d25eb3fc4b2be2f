package e2e

import (
	"net/http"
	"testing"

	"github.com/google/uuid"

	"mysql-broker/test/testdrive"
)

// ownInstance chooses an id. Unlike that of newInstance, the instance is the test's to delete, through whichever
// replica of the broker is alive by then.
func (p platform) ownInstance(t *testing.T, plan string) instance {
	t.Helper()
	serviceID, planID := testdrive.Plan(t, plan)
	return instance{platform: p, id: uuid.NewString(), serviceID: serviceID, planID: planID}
}

// makeOwn makes an instance that is the test's to delete.
func (p platform) makeOwn(t *testing.T, plan string) instance {
	t.Helper()
	i := p.ownInstance(t, plan)
	if r := i.provision(t, later, nil); r.Status == http.StatusAccepted {
		i.await(t, r.String("operation"))
	} else {
		r.Expect(t, http.StatusCreated)
	}
	return i
}

// via is the same instance as another replica of the broker knows it.
func (i instance) via(p platform) instance {
	i.platform = p
	return i
}

// begin asks for the instance and returns the operation that is to make it.
func (i instance) begin(t *testing.T) (operation string) {
	t.Helper()
	return i.provision(t, later, nil).Expect(t, http.StatusAccepted).String("operation")
}
