package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// Some rows of a list are the first of those that match, however many others lie between.
func TestListsEndEarly(t *testing.T) {
	t.Parallel()
	s := filled(t, `INSERT INTO instance (id, service_id, plan_id, state, server, database_name)
		SELECT to_char(n, 'FM00000'), 's', 'p', 'ready', 'server-' || n % 2, 'db_' || n FROM generate_series(1, 11000) n`,
		`INSERT INTO task (instance_id, kind, plan_id, state, finished_at)
		SELECT 'i', CASE WHEN n IN (3, 6000) THEN 'update' ELSE 'bind' END, 'p', 'succeeded', now()
		FROM generate_series(1, 11000) n`)
	for _, tt := range []struct {
		q           store.InstanceQuery
		count       int
		first, last string
	}{
		{store.InstanceQuery{Most: 50}, 50, "00001", "00050"},
		{store.InstanceQuery{Server: "server-1", Most: 5000}, 5000, "00001", "09999"},
		{store.InstanceQuery{Server: "server-1"}, 5500, "00001", "10999"},
		{store.InstanceQuery{Server: "none", Most: 50}, 0, "", ""},
	} {
		ids := []string{}
		if err := s.Instances.Each(t.Context(), tt.q, func(i store.ListedInstance) error {
			ids = append(ids, i.ID)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(ids) != tt.count || tt.count > 0 && (ids[0] != tt.first || ids[len(ids)-1] != tt.last) {
			t.Errorf("%+v: %d instances", tt.q, len(ids))
		}
	}
	for most, want := range map[int]int{1: 1, 2: 2, 3: 2} {
		var ids []int64
		if err := s.Tasks.Each(t.Context(), store.TaskQuery{Kind: store.Update, Most: most}, func(t store.ListedTask) error {
			ids = append(ids, t.ID)
			return nil
		}); err != nil || len(ids) != want || ids[0] != 6000 {
			t.Errorf("%d of two tasks: %v, %v", most, ids, err)
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

// A name of one instance finds it. Nobody hides an instance behind another by calling that by its id.
func TestInstancesAreFoundByName(t *testing.T) {
	t.Parallel()
	s := filled(t, `INSERT INTO instance (id, service_id, plan_id, state, server, database_name, context) VALUES
		('a', 's', 'p', 'ready', 'one', 'db_a', '{"instance_name":"orders"}'),
		('b', 's', 'p', 'ready', 'one', 'db_b', '{"instance_name":"twice"}'),
		('c', 's', 'p', 'ready', 'one', 'db_c', '{"instance_name":"twice"}'),
		('d', 's', 'p', 'ready', 'one', 'db_d', '{"instance_name":"a"}')`)
	for name, want := range map[string]string{"orders": "a", "a": "a", "db_b": "b"} {
		if id, err := s.Instances.Named(t.Context(), name); id != want || err != nil {
			t.Errorf("%q is instance %q, %v", name, id, err)
		}
	}
	_, err := s.Instances.Named(t.Context(), "twice")
	if several, ok := errors.AsType[*store.AmbiguousError](err); !ok || !slices.Equal(several.IDs, []string{"b", "c"}) {
		t.Errorf("a name of two instances: %v", err)
	}
	if _, err := s.Instances.Named(t.Context(), "nothing"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a name of no instance: %v", err)
	}
	if _, err := s.Instances.Find(t.Context(), "orders"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the broker itself goes by names: %v", err)
	}
}
