package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
)

// A page has 5000 keys: the instances fill two, and the last of three has one task. A list that ends early has the first
// rows that match, however many others lie between.
func TestListsOverPages(t *testing.T) {
	s := filled(t, `INSERT INTO instance (id, service_id, plan_id, state, server, database_name)
		SELECT to_char(n, 'FM00000'), 's', 'p', 'ready', 'server-' || n % 2, 'db_' || n FROM generate_series(1, 10000) n`,
		`INSERT INTO binding (instance_id, id, state, role, account, password)
		SELECT id, 'b', 'ready', 'admin', 'u_' || id, '' FROM instance`,
		`INSERT INTO task (instance_id, kind, plan_id, state, finished_at)
		SELECT 'i', CASE WHEN n IN (3, 6000) THEN 'update' ELSE 'bind' END, 'p', 'succeeded', now()
		FROM generate_series(1, 10001) n`)
	for _, tt := range []struct {
		q           store.InstanceQuery
		count       int
		first, last string
	}{
		{store.InstanceQuery{}, 10000, "00001", "10000"},
		{store.InstanceQuery{Most: 50}, 50, "00001", "00050"},
		{store.InstanceQuery{Server: "server-1", Most: 4999}, 4999, "00001", "09997"},
		{store.InstanceQuery{Server: "server-1"}, 5000, "00001", "09999"},
		{store.InstanceQuery{Server: "none", Most: 50}, 0, "", ""},
	} {
		var ids, bound []string
		for _, i := range listed(t, s.Instances.Each, tt.q) {
			ids = append(ids, i.ID)
			assert.EqualValues(t, 1, i.Bindings, "bindings of %s", i.ID)
		}
		assert.False(t, len(ids) != tt.count || tt.count > 0 && (ids[0] != tt.first || ids[len(ids)-1] != tt.last),
			"%+v: %d instances", tt.q, len(ids))
		assert.Len(t, slices.Compact(slices.Sorted(slices.Values(ids))), tt.count)
		if tt.q.Most == 0 {
			for _, b := range listed(t, s.Bindings.Each, store.BindingQuery{Server: tt.q.Server}) {
				bound = append(bound, b.InstanceID)
			}
			assert.Equal(t, ids, bound)
		}
	}
	tasks := listed(t, s.Tasks.Each, store.TaskQuery{})
	require.Len(t, tasks, 10001)
	for n, task := range tasks {
		require.EqualValues(t, 10001-n, task.ID, "the newest task first")
	}
	for most, want := range map[int]int{1: 1, 2: 2, 3: 2} {
		all := listed(t, s.Tasks.Each, store.TaskQuery{Kind: store.Update, Most: most})
		assert.True(t, len(all) == want && all[0].ID == 6000, "%d of two tasks: %v", most, all)
	}
}

// Rows that are inserted or deleted while a page is read do not move its end or the beginning of the next one. A page
// has 5000 keys; the rows to find are at the end of the first one, and the changing rows at its beginning.
func TestPagesAreCompleteWhileRowsComeAndGo(t *testing.T) {
	s, url := fresh(t)
	exec(t, url, `INSERT INTO instance (id, service_id, plan_id, state, server, database_name)
		SELECT to_char(n, 'FM00000'), 's', CASE WHEN n > 4800 THEN 'stays' ELSE 'other' END, 'ready', 'a', 'db_' || n
		FROM generate_series(1, 5200) n`)
	churn := connect(t, url)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			_, err = churn.Exec(context.Background(), `BEGIN; INSERT INTO instance (id, service_id, plan_id, state, server, database_name)
				SELECT to_char(n, 'FM00000') || '-', 's', 'goes', 'ready', 'a', 'db_-' || n FROM generate_series(1, 100) n; COMMIT;
				DELETE FROM instance WHERE plan_id = 'goes'`)
		}
		ended <- err
	}()
	for range 20 {
		assert.Len(t, listed(t, s.Instances.Each, store.InstanceQuery{PlanIDs: []string{"stays"}}), 400)
	}
	stop()
	assert.NoError(t, <-ended)
}

// Tasks from before an instance was created do not belong to it, even if the id is the same.
func TestActivityIsTheInstancesOwn(t *testing.T) {
	instance := `INSERT INTO instance (id, service_id, plan_id, state, server, database_name, created_at)
		VALUES ('%s', 's', 'p', 'ready', 'server', 'db_%[1]s', now() - '1 hour'::interval)`
	task := `INSERT INTO task (instance_id, binding_id, kind, plan_id, state, description, created_at, finished_at)
		VALUES ('%s', '%s', '%s', 'p', '%s', '%s', now() - '%s'::interval, now() - '%[6]s'::interval)`
	s := filled(t, fmt.Sprintf(instance, "again"), fmt.Sprintf(instance, "used"), fmt.Sprintf(instance, "bound"),
		fmt.Sprintf(task, "again", "", "deprovision", "succeeded", "", "2 hours"),
		fmt.Sprintf(task, "used", "", "provision", "succeeded", "", "1 hour"),
		fmt.Sprintf(task, "used", "", "update", "failed", "too small", "10 minutes"),
		fmt.Sprintf(task, "used", "b", "bind", "succeeded", "", "5 minutes"),
		fmt.Sprintf(task, "gone", "", "deprovision", "succeeded", "", "1 minute"),
		`INSERT INTO binding (instance_id, id, state, app_guid, role, account, password, created_at)
			VALUES ('bound', 'b', 'ready', 'app', 'admin', 'u_1', '', now()), ('bound', 'c', 'ending', '', 'read-only', 'u_2', '',
				now() - '1 minute'::interval)`)
	for id, want := range map[string]string{"used": "ready, update failed: too small, 0/0", "again": "ready,  : , 0/0",
		"none": ",  : , 0/0", "bound": "ready,  : , 1/2", "gone": ", deprovision succeeded: , 0/0"} {
		a, err := s.Reports.Activity(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, want, fmt.Sprintf("%s, %s %s: %s, %d/%d", a.State, a.Latest.Kind, a.Latest.State, a.Latest.Description,
			a.Ready, a.Bindings), id)
	}
	used, err := s.Instances.Get(t.Context(), "used")
	require.NoError(t, err)
	recent, err := s.Reports.RecentTasks(t.Context(), "used", used.CreatedAt, 2)
	assert.True(t, err == nil && len(recent) == 2 && recent[0].Kind == store.Bind && recent[1].Kind == store.Update,
		"the latest two operations: %+v, %v", recent, err)
	old, err := s.Reports.RecentTasks(t.Context(), "again", used.CreatedAt, 20)
	assert.True(t, err == nil && len(old) == 0, "operations of an instance of that id before: %+v, %v", old, err)
	bindings, err := s.Reports.Bindings(t.Context(), "bound")
	assert.True(t, err == nil && len(bindings) == 2 && bindings[0].ID == "c" && bindings[1].Account == "u_1",
		"bindings: %+v, %v", bindings, err)
}

// A name of one instance finds it. Nobody hides an instance behind another by calling that by its id.
func TestInstancesAreFoundByName(t *testing.T) {
	s := filled(t, `INSERT INTO instance (id, service_id, plan_id, state, server, database_name, context) VALUES
		('a', 's', 'p', 'ready', 'one', 'db_a', '{"instance_name":"orders"}'),
		('b', 's', 'p', 'ready', 'one', 'db_b', '{"instance_name":"twice"}'),
		('c', 's', 'p', 'ready', 'one', 'db_c', '{"instance_name":"twice"}'),
		('d', 's', 'p', 'ready', 'one', 'db_d', '{"instance_name":"a"}')`)
	for name, want := range map[string]string{"orders": "a", "a": "a", "db_b": "b"} {
		id, err := s.Instances.Named(t.Context(), name)
		assert.True(t, id == want && err == nil, "%q is instance %q, %v", name, id, err)
	}
	_, err := s.Instances.Named(t.Context(), "twice")
	several, ok := errors.AsType[*store.AmbiguousError](err)
	require.True(t, ok, "a name of two instances: %v", err)
	assert.Equal(t, []string{"b", "c"}, several.IDs)
	_, err = s.Instances.Named(t.Context(), "nothing")
	assert.ErrorIs(t, err, store.ErrNotFound, "a name of no instance")
	_, err = s.Instances.Find(t.Context(), "orders")
	assert.ErrorIs(t, err, store.ErrNotFound, "the broker itself goes by names")
}
