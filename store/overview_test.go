package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// filled returns a store whose database a statement has filled.
func filled(t *testing.T, statements ...string) *store.Store {
	t.Helper()
	return filledAt(t, servers.Postgres(t), statements...)
}

func filledAt(t *testing.T, url string, statements ...string) *store.Store {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, statement := range statements {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return servers.OpenStore(t, url)
}

// 11,000 instances: on two servers by turns, the last one failed.
const manyInstances = `INSERT INTO instance (id, service_id, plan_id, state, server, database_name, context)
	SELECT to_char(n, 'FM00000'), 's', CASE WHEN n <= 120 THEN 'few' ELSE 'many' END,
		CASE WHEN n = 11000 THEN 'create failed' ELSE 'ready' END, 'server-' || n % 2, 'db_' || n,
		json_build_object('instance_name', 'name-' || n)
	FROM generate_series(1, 11000) n`

func TestInstancesAreListedPageByPage(t *testing.T) {
	t.Parallel()
	s := filled(t, manyInstances)
	for _, tt := range []struct {
		filter       store.InstanceQuery
		count, pages int
		first, last  string
	}{
		{store.InstanceQuery{}, 11000, 220, "00001", "11000"},
		{store.InstanceQuery{PlanIDs: []string{"few"}}, 120, 5, "00001", "00120"}, // and the rest has to be looked through
		{store.InstanceQuery{PlanIDs: []string{"few"}, Server: "server-0"}, 60, 4, "00002", "00120"},
		{store.InstanceQuery{State: store.CreateFailed}, 1, 3, "11000", "11000"},
		{store.InstanceQuery{Server: "none"}, 0, 3, "", ""},
	} {
		var ids []string
		pages := 0
		for after := ""; after != "" || pages == 0; pages++ {
			page, next, err := s.Instances.After(t.Context(), after, tt.filter, 50)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) > 50 || next != "" && next <= after {
				t.Fatalf("%+v: a page of %d rows after %q goes on after %q", tt.filter, len(page), after, next)
			}
			for _, i := range page {
				if want := "name-" + strings.TrimLeft(i.ID, "0"); i.Name != want {
					t.Fatalf("%s has the name %q", i.ID, i.Name)
				}
				ids = append(ids, i.ID)
			}
			after = next
		}
		if len(ids) != tt.count || pages != tt.pages || !slices.IsSorted(ids) ||
			len(slices.Compact(slices.Clone(ids))) != len(ids) {
			t.Errorf("%+v: %d instances on %d pages, wanted %d on %d", tt.filter, len(ids), pages, tt.count, tt.pages)
		}
		if tt.count > 0 && (ids[0] != tt.first || ids[len(ids)-1] != tt.last) {
			t.Errorf("%+v: from %s to %s", tt.filter, ids[0], ids[len(ids)-1])
		}
	}
}

func TestTasksAreListedPageByPage(t *testing.T) {
	t.Parallel()
	s := filled(t, `INSERT INTO task (instance_id, binding_id, kind, plan_id, state, finished_at)
		SELECT 'i' || n % 1000, CASE WHEN n = 10000 THEN '' ELSE 'b' || n END, CASE WHEN n = 3 THEN 'update' ELSE 'bind' END,
			'p', CASE WHEN n IN (7, 10999) THEN 'failed' WHEN n = 10000 THEN 'in progress' ELSE 'succeeded' END,
			CASE WHEN n <> 10000 THEN now() END
		FROM generate_series(1, 11000) n`)
	for _, tt := range []struct {
		filter       store.TaskQuery
		count, pages int
	}{
		{store.TaskQuery{}, 11000, 220},
		{store.TaskQuery{State: store.Failed}, 2, 1},
		{store.TaskQuery{State: store.Failed, Kind: store.Update}, 0, 1},
		{store.TaskQuery{State: store.InProgress}, 1, 1},
		{store.TaskQuery{InstanceID: "i7"}, 11, 1},
		{store.TaskQuery{InstanceID: "i7", State: store.Failed}, 1, 1},
		{store.TaskQuery{InstanceID: "i7", State: store.Succeeded}, 10, 1},
		{store.TaskQuery{Kind: store.Update}, 1, 3},
		{store.TaskQuery{State: "no such state"}, 0, 3},
	} {
		var ids []int64
		pages := 0
		for before := int64(0); before != 0 || pages == 0; pages++ {
			page, next, err := s.Tasks.Before(t.Context(), before, tt.filter, 50)
			if err != nil {
				t.Fatal(err)
			}
			for _, task := range page {
				ids = append(ids, task.ID)
			}
			before = next
		}
		slices.Reverse(ids)
		if len(ids) != tt.count || pages != tt.pages || !slices.IsSorted(ids) ||
			len(slices.Compact(slices.Clone(ids))) != len(ids) {
			t.Errorf("%+v: %d tasks on %d pages, wanted %d on %d", tt.filter, len(ids), pages, tt.count, tt.pages)
		}
	}
}

// Tasks from before an instance was created do not belong to it, even if the id is the same.
func TestActivityIsTheInstancesOwn(t *testing.T) {
	t.Parallel()
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
	all, err := s.Reports.Activities(t.Context(), []string{"used", "again", "none", "bound", "gone"})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, a := range all {
		got += fmt.Sprintf("%s %q %s %q %d/%d\n", a.InstanceID, a.State, a.Latest.Kind, a.Latest.Description, a.Ready, a.Bindings)
	}
	want := "used \"ready\" update \"too small\" 0/0\nagain \"ready\"  \"\" 0/0\nnone \"\"  \"\" 0/0\nbound \"ready\"  \"\" 1/2\n" +
		"gone \"\" deprovision \"\" 0/0\n"
	if got != want {
		t.Errorf("got\n%swanted\n%s", got, want)
	}
	used, err := s.Instances.Get(t.Context(), "used")
	if err != nil {
		t.Fatal(err)
	}
	recent, err := s.Reports.RecentTasks(t.Context(), "used", used.CreatedAt, 2)
	if err != nil || len(recent) != 2 || recent[0].Kind != store.Bind || recent[1].Kind != store.Update {
		t.Errorf("the latest two operations: %+v, %v", recent, err)
	}
	if old, err := s.Reports.RecentTasks(t.Context(), "again", used.CreatedAt, 20); err != nil || len(old) != 0 {
		t.Errorf("operations of an instance of that id before: %+v, %v", old, err)
	}
	bindings, err := s.Reports.BindingSummaries(t.Context(), "bound")
	if err != nil || len(bindings) != 2 || bindings[0].ID != "c" || bindings[1].Account != "u_1" {
		t.Errorf("bindings: %+v, %v", bindings, err)
	}
}
