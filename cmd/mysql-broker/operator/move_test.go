package operator

import (
	"testing"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// An evacuation passes over what somebody else has deleted or moved since it listed the server.
func TestEvacuatePassesOverWhatHasLeft(t *testing.T) {
	t.Parallel()
	c := &console{store: servers.Store(t)}
	all, err := shared.Open([]shared.Config{{Admin: mysqladmin.Config{Name: "new", Addr: "127.0.0.1:1", User: "u",
		Password: "p"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = all.Close() })
	if err := c.store.InTx(t.Context(), func(tx *store.Tx) error {
		return tx.InsertInstance(store.Instance{ID: "moved", Location: store.SharedLocation("new"), Database: "db"})
	}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"deleted", "moved"} {
		if sentence, err := c.moveAway(t.Context(), all, id, "old", []string{"new"}); sentence != "" || err != nil {
			t.Errorf("%s: %q, %v", id, sentence, err)
		}
	}
	if _, err := c.moveAway(t.Context(), all, "moved", "new", []string{"new"}); err == nil {
		t.Error("what is still on the server is passed over")
	}
}
