package store_test

import (
	"encoding/json"
	"testing"
	"time"

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
	if err != nil || len(all) != 1 || string(all[0].Parameters) != `{"charset": "latin1", `+
		`"bootstrap_sha256": "e004ebd5b5532a4b85984a62f8ad48a81aa3460c1ca07701f386135d72cdecf5"}` {
		t.Errorf("%v, %v", all, err)
	}
}

// What may be a mixture stays frozen when PostgreSQL is restored from a backup of before.
func TestCopiesSayWhatIsFrozen(t *testing.T) {
	t.Parallel()
	s := filled(t, `INSERT INTO instance (id, service_id, plan_id, state, server, database_name, frozen_since)
		VALUES ('i', 's', 'p', 'ready', 'a', 'db_i', now())`,
		`INSERT INTO task (instance_id, kind, plan_id, state, finished_at) VALUES ('i', 'restore', 'p', 'failed', now())`)
	copies, err := s.Recovery.CopiesSince(t.Context(), "a", time.Now().Add(-time.Hour))
	if err != nil || len(copies) != 1 || copies[0].FrozenSince == nil {
		t.Fatalf("%+v, %v", copies, err)
	}
	c := copies[0]
	for name, restore := range map[string]func(tx *store.Tx) error{
		"adopted": func(tx *store.Tx) error {
			tx.Adopt(c, store.SharedLocation("a"))
			return nil
		},
		"moved": func(tx *store.Tx) error {
			if err := tx.InsertInstance(store.Instance{ID: "i", Location: store.SharedLocation("b"), Database: "db_i"}); err != nil {
				return err
			}
			return tx.AdoptPlace(t.Context(), c, store.SharedLocation("a"), true)
		},
		"recorded": func(tx *store.Tx) error {
			err := tx.InsertInstance(store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db_i"})
			tx.Freeze(c)
			return err
		},
	} {
		restored := servers.Store(t)
		inTx(t, restored, restore)
		if i, err := restored.Instances.Get(t.Context(), "i"); err != nil || i.FrozenSince == nil {
			t.Errorf("%s: it is not frozen: %v", name, err)
		}
	}
	restored := servers.Store(t)
	inTx(t, restored, func(tx *store.Tx) error {
		c.Retained = &store.RetainedCopy{ID: "r", DeletedAt: time.Now(), Until: time.Now().Add(time.Hour)}
		tx.RetainCopy(c, store.SharedLocation("a"))
		return nil
	})
	again, err := restored.Recovery.RetainedCopies(t.Context(), "a", time.Time{})
	if err != nil || len(again) != 1 || again[0].FrozenSince == nil {
		t.Errorf("retained: %+v, %v", again, err)
	}
}
