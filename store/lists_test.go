package store_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// fill records instances, each with a binding and a task that has ended.
func fill(t *testing.T, url string, instances int) {
	t.Helper()
	exec(t, url, fmt.Sprintf(`INSERT INTO instance (id, service_id, plan_id, state, server, database_name)
			SELECT 'i' || n, 's', 'p' || n %% 2, 'ready', 'a', 'db_' || n FROM generate_series(1, %d) n`, instances),
		`INSERT INTO binding (instance_id, id, state, role, account, password)
			SELECT id, 'b', 'ready', 'admin', 'u_' || id, '' FROM instance`,
		`INSERT INTO task (instance_id, kind, plan_id, state, finished_at)
			SELECT id, 'provision', 'p', CASE id WHEN 'i1' THEN 'failed' ELSE 'succeeded' END, now() FROM instance`)
}

func TestListsOverPages(t *testing.T) {
	t.Parallel()
	for _, count := range []int{0, 5000, 5001} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			t.Parallel()
			url := servers.Postgres(t)
			fill(t, url, count)
			s := servers.OpenStore(t, url)

			var instances, bindings []string
			var tasks []int64
			odd := 0
			err := errors.Join(
				s.Instances.Each(t.Context(), store.InstanceQuery{}, func(i store.ListedInstance) error {
					instances = append(instances, i.ID)
					assert.EqualValues(t, 1, i.Bindings, "%s has %d bindings", i.ID, i.Bindings)
					return nil
				}),
				s.Instances.Each(t.Context(), store.InstanceQuery{PlanIDs: []string{"p1"}}, func(i store.ListedInstance) error {
					odd++
					return nil
				}),
				s.Bindings.Each(t.Context(), store.BindingQuery{Server: "a"}, func(b store.ListedBinding) error {
					bindings = append(bindings, b.InstanceID)
					return nil
				}),
				s.Tasks.Each(t.Context(), store.TaskQuery{}, func(t store.ListedTask) error {
					tasks = append(tasks, t.ID)
					return nil
				}))
			require.NoError(t, err)
			if !slices.Equal(instances, bindings) || len(instances) != count || odd != (count+1)/2 || len(tasks) != count {
				t.Errorf("%d instances, %d of a plan, %d bindings, %d tasks", len(instances), odd, len(bindings), len(tasks))
			}
			slices.Sort(instances)
			assert.Len(t, slices.Compact(instances), count, "an instance comes twice")
			assert.True(t, slices.IsSortedFunc(tasks, func(a, b int64) int { return cmp.Compare(b, a) }), "the newest task first")
			assert.Len(t, slices.Compact(tasks), count, "a task comes twice")
			failed := 0
			err = s.Tasks.Each(t.Context(), store.TaskQuery{State: store.Failed}, func(store.ListedTask) error {
				failed++
				return nil
			})
			assert.True(t, err == nil && failed == min(count, 1), "%d failed, %v", failed, err)
		})
	}
}

// Rows that are inserted or deleted while a page is read do not move its end or the beginning of the next one. A page
// has 5000 keys; the rows to find are at the end of the first one, and the changing rows at its beginning.
func TestPagesAreCompleteWhileRowsComeAndGo(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	s := servers.OpenStore(t, url)
	exec(t, url, `INSERT INTO instance (id, service_id, plan_id, state, server, database_name)
		SELECT to_char(n, 'FM00000'), 's', CASE WHEN n > 4800 THEN 'stays' ELSE 'other' END, 'ready', 'a', 'db_' || n
		FROM generate_series(1, 5200) n`)
	churn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if _, err := churn.Exec(context.Background(), `INSERT INTO instance (id, service_id, plan_id, state, server, database_name)
				SELECT to_char(n, 'FM00000') || '-', 's', 'goes', 'ready', 'a', 'db_-' || n FROM generate_series(1, 100) n`); err != nil {
				ended <- err
				return
			}
			if _, err := churn.Exec(context.Background(), "DELETE FROM instance WHERE plan_id = 'goes'"); err != nil {
				ended <- err
				return
			}
		}
		ended <- churn.Close(context.Background())
	}()
	for range 20 {
		seen := 0
		require.NoError(t, s.Instances.Each(t.Context(), store.InstanceQuery{PlanIDs: []string{"stays"}},
			func(store.ListedInstance) error { seen++; return nil }))
		assert.Equal(t, 400, seen, "instances that were there all the time")
	}
	stop()
	assert.NoError(t, <-ended)
}
