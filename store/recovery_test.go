package store_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// Tasks that are recorded on servers stay known; otherwise PostgreSQL would be held without a restore. The mark does
// not go back, which would hide a restore.
func TestForgottenTasksHoldNothing(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		created string        // when the tasks were recorded; all ended at 50 days ago
		age     time.Duration // of those to forget: 0 is a clock that is far ahead
		next    bool          // a task follows before servers are told again
	}{
		"idle for long":                       {"now() - '51 days'::interval", 30 * day, false},
		"recorded while the clock was ahead":  {"now() + '300 days'::interval", 30 * day, true},
		"forgotten while the clock was ahead": {"now() - '1 hour'::interval", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, url := fresh(t)
			newTask(t, s, provisionOf("before"))
			newTask(t, s, provisionOf("told"))
			exec(t, url, "UPDATE task SET state = 'succeeded', finished_at = now() - '50 days'::interval, created_at = "+
				c.created)
			told, err := s.Recovery.Mark(t.Context())
			require.NoError(t, err)
			if c.next {
				newTask(t, s, provisionOf("next"))
			}
			_, err = s.Tasks.DeleteFinished(t.Context(), c.age)
			require.NoError(t, err)
			knows, err := s.Tasks.Knows(t.Context(), told.TaskID, told.TaskAt)
			assert.True(t, err == nil && knows, "a task that servers were told of is known: %v, %v", knows, err)
			m, err := s.Recovery.Mark(t.Context())
			assert.True(t, err == nil && m.TaskID >= told.TaskID,
				"the mark went from task_%d to task_%d, %v", told.TaskID, m.TaskID, err)
		})
	}
}

// What is kept beside a server has a limit, which SQL with many control characters would exceed.
func TestCopiesLeaveBootstrapOut(t *testing.T) {
	s := parallel(t)
	insertInstance(t, s, store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db_i",
		Parameters: json.RawMessage(`{"charset":"latin1","bootstrap":"SELECT 1"}`)})
	write(t, s, func(tx *store.Tx) { tx.SetInstanceState("i", store.Ready) })
	all := slices.Concat(listed(t, s.Recovery.EachCopy, "a")...)
	require.Len(t, all, 1)
	assert.Equal(t, `{"charset": "latin1", "bootstrap_sha256": `+
		`"e004ebd5b5532a4b85984a62f8ad48a81aa3460c1ca07701f386135d72cdecf5"}`, string(all[0].Parameters))
}

// What may be a mixture stays frozen when PostgreSQL is restored from a backup of before.
func TestCopiesSayWhatIsFrozen(t *testing.T) {
	s := filled(t, `INSERT INTO instance (id, service_id, plan_id, state, server, database_name, frozen_since)
		VALUES ('i', 's', 'p', 'ready', 'a', 'db_i', now())`,
		`INSERT INTO task (instance_id, kind, plan_id, state, finished_at) VALUES ('i', 'restore', 'p', 'failed', now())`)
	copies, err := s.Recovery.CopiesSince(t.Context(), "a", time.Now().Add(-time.Hour))
	require.True(t, err == nil && len(copies) == 1 && copies[0].FrozenSince != nil, "%+v, %v", copies, err)
	c := copies[0]
	for name, restore := range map[string]func(tx *store.Tx) error{
		"adopted": func(tx *store.Tx) error {
			tx.Adopt(c, store.SharedLocation("a"))
			return nil
		},
		"moved": func(tx *store.Tx) error {
			err := tx.InsertInstance(store.Instance{ID: "i", Location: store.SharedLocation("b"), Database: "db_i"})
			return errors.Join(err, tx.AdoptPlace(t.Context(), c, store.SharedLocation("a"), true))
		},
		"recorded": func(tx *store.Tx) error {
			err := tx.InsertInstance(store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db_i"})
			tx.Freeze(c.ID, *c.FrozenSince)
			return err
		},
	} {
		restored := servers.Store(t)
		inTx(t, restored, restore)
		i, err := restored.Instances.Get(t.Context(), "i")
		assert.True(t, err == nil && i.FrozenSince != nil, "%s: it is not frozen: %v", name, err)
	}
	restored := servers.Store(t)
	c.Retained = &store.RetainedCopy{ID: "r", DeletedAt: time.Now(), Until: time.Now().Add(time.Hour)}
	write(t, restored, func(tx *store.Tx) { tx.RetainCopy(c, store.SharedLocation("a")) })
	again, err := restored.Recovery.RetainedCopies(t.Context(), "a", time.Time{})
	assert.True(t, err == nil && len(again) == 1 && again[0].FrozenSince != nil, "retained: %+v, %v", again, err)
}

// What is recorded beside data that arrives is what is recorded of the instance once it has arrived. After PostgreSQL was
// restored, the place that the data has left is recorded as after any move.
func TestCopiesOfMovedInstances(t *testing.T) {
	s := parallel(t)
	ready(t, s, "i", "db_i")
	to := store.DedicatedLocation("here", "d_1")
	_, err := s.Recovery.ArrivingCopy(t.Context(), "i", "large", "2")
	assert.ErrorIs(t, err, store.ErrNotFound, "an instance that does not move arrives")
	inTx(t, s, func(tx *store.Tx) error {
		return tx.SetDestination(t.Context(), store.Instance{ID: "i", Database: "db_i"}, to, "secret-Passw0rd", 0)
	})
	c, err := s.Recovery.ArrivingCopy(t.Context(), "i", "large", "2")
	require.NoError(t, err)
	password, _, err := s.Recovery.Passwords(c)
	assert.True(t, err == nil && c.MovedAt != nil && c.DedicatedID == "d_1" && c.Launcher == "here" &&
		password == "secret-Passw0rd" && c.PlanID == "large" && c.MaintenanceVersion == "2" && c.Database == "db_i",
		"%+v, %v", c, err)
	write(t, s, func(tx *store.Tx) { tx.ForgetDestination("i") })
	moved := time.Now().Add(-time.Hour).Truncate(time.Microsecond)
	for n, at := range []store.Location{to, store.SharedLocation("b")} {
		inTx(t, s, func(tx *store.Tx) error { return tx.AdoptFormer(t.Context(), c, at, moved) })
		i, err := s.Instances.Get(t.Context(), "i")
		assert.True(t, err == nil && i.Location == store.SharedLocation("a") && i.Former() && i.Other.Location == at &&
			i.Other.Moved.Equal(moved) && i.Other.AdminPassword == "secret-Passw0rd",
			"the former place is %+v, %v", i.Other, err)
		states, err := s.Servers.States(t.Context(), []string{"b"})
		require.NoError(t, err)
		assert.Equal(t, n, states["b"].Instances, "instances on another server, at %+v", at)
	}
}
