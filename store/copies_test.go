package store_test

import (
	"encoding/json"
	"testing"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// What is kept beside a server has a limit, which SQL with many control characters would exceed.
func TestCopiesLeaveBootstrapOut(t *testing.T) {
	t.Parallel()
	s := servers.Store(t)
	err := s.InTx(t.Context(), func(tx *store.Tx) error {
		err := tx.InsertInstance(store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db_i",
			Parameters: json.RawMessage(`{"charset":"latin1","bootstrap":"SELECT 1"}`)})
		tx.SetInstanceState("i", store.Ready)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []store.InstanceCopy
	err = s.Recovery.EachCopy(t.Context(), "a", func(some []store.InstanceCopy) error {
		all = append(all, some...)
		return nil
	})
	if err != nil || len(all) != 1 || string(all[0].Parameters) != `{"charset": "latin1"}` {
		t.Errorf("%v, %v", all, err)
	}
}
