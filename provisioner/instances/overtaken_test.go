package instances_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/instances"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
	"mysql-broker/test/inprocess"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// After the platform has read that an instance does not exist, no older request creates it: neither one that a broker
// had received before, nor one that it reads when the client has left, and which may have waited in the network since.
func TestProvisionThatComesTooLate(t *testing.T) {
	t.Parallel()
	p := plan.Plan{ID: "shared", ServiceID: "mysql", Kind: plan.Shared, Async: plan.AsyncNever, MaxStorageMB: 100,
		MaxConnections: 7, MaxBindings: 10}
	s := servers.Any(t)
	site := inprocess.New(t, s, testdrive.Environment(t, s), plan.Set{p})
	for _, deleted := range []bool{false, true} {
		q := engine.ProvisionRequest{InstanceID: uuid.NewString(), Plan: p}
		early, late := q, q
		early.Received, late.Left = time.Now(), func() bool { return true }
		if deleted { // the late request repeats one that was carried out
			_, err := site.Broker.Provision(t.Context(), q)
			site.Must(err)
		}
		_, err := site.Broker.Deprovision(t.Context(), instances.DeprovisionRequest{InstanceID: q.InstanceID, Plan: p})
		if gone := engine.Explain(err); (err == nil) != deleted || err != nil && (gone == nil || gone.Code != engine.AlreadyDeleted) {
			t.Errorf("the deletion: %v", err)
		}
		for what, late := range map[string]engine.ProvisionRequest{"received before": early, "read after its client has left": late} {
			_, err := site.Broker.Provision(t.Context(), late)
			if refused := engine.Explain(err); refused == nil || refused.Code != engine.Busy {
				t.Errorf("deleted %t, %s: %v", deleted, what, err)
			}
			if _, err := site.Store.Instances.Get(t.Context(), q.InstanceID); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("deleted %t, %s, there is an instance: %v", deleted, what, err)
			}
		}
		_, err = site.Broker.Provision(t.Context(), q) // a newer request
		site.Must(err)
	}
}
