package client

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"code.cloudfoundry.org/brokerapi/v13/domain"
)

// caller runs client commands against one endpoint with names of its own.
type caller struct {
	t   *testing.T
	env map[string]string
}

func newCaller(t *testing.T, e *endpoint) *caller {
	t.Helper()
	dir := t.TempDir()
	return &caller{t, map[string]string{
		"BROKER_URL":                e.url,
		"BROKER_USERNAME":           "u",
		"BROKER_PASSWORD":           "p",
		"MYSQL_BROKER_DEV_DIR":      filepath.Join(dir, "dev"),
		"MYSQL_BROKER_CLIENT_STATE": filepath.Join(dir, "state", "client.json"),
	}}
}

func (u *caller) run(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	u.t.Helper()
	var out, progress bytes.Buffer
	cmd := command(func(name string) string { return u.env[name] })
	cmd.SilenceErrors = true
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&progress)
	err = cmd.ExecuteContext(ctx)
	return out.String(), progress.String(), err
}

// ok runs a command that must succeed and returns its output.
func (u *caller) ok(args ...string) string {
	u.t.Helper()
	out, _, err := u.run(u.t.Context(), args...)
	if err != nil {
		u.t.Fatalf("%v: %v", args, err)
	}
	return out
}

// fails runs a command that must fail with an error that contains want.
func (u *caller) fails(want string, args ...string) {
	u.t.Helper()
	out, _, err := u.run(u.t.Context(), args...)
	if err == nil || !strings.Contains(err.Error(), want) {
		u.t.Fatalf("%v: error %v, want %q", args, err, want)
	}
	if out != "" {
		u.t.Errorf("%v: printed %q", args, out)
	}
}

func contains(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

func TestCatalog(t *testing.T) {
	t.Parallel()
	u := newCaller(t, startEndpoint(t))
	contains(t, u.ok("catalog"), "offering   plan      description\n", "db         sync      at once\n")
	var document struct {
		Services []struct {
			Name   string
			Client *domain.ServiceDashboardClient `json:"dashboard_client"`
		}
	}
	if err := json.Unmarshal([]byte(u.ok("catalog", "--json")), &document); err != nil {
		t.Fatal(err)
	}
	if all := document.Services; len(all) != 2 || all[0].Client == nil || all[0].Client.ID != "dashboard-id" ||
		all[0].Client.Secret == "hush" || all[1].Client != nil {
		t.Errorf("services = %+v", all)
	}
}

func TestSyncInstanceAndKeys(t *testing.T) {
	t.Parallel()
	e := startEndpoint(t)
	u := newCaller(t, e)
	contains(t, u.ok("services"), "No service instances")
	contains(t, u.ok("create-service", "sync", "mine", "-c", `{"charset":"utf8mb4"}`), "Created service instance mine.")
	for _, d := range e.instances {
		if d.ServiceID != "service-id" || d.PlanID != "sync-id" || string(d.RawParameters) != `{"charset":"utf8mb4"}` {
			t.Errorf("asked for %+v", d)
		}
		if c := contextOf(t, d.RawContext); c["platform"] != platform || c["instance_name"] != "mine" {
			t.Errorf("context = %v", c)
		}
	}
	u.fails("there is a service instance mine already: create succeeded", "create-service", "sync", "mine")

	made := u.ok("create-service-key", "mine", "k", "-c", `{"role":"admin"}`)
	contains(t, made, `"uri": "mysql://u:p@h/db?a=1&b=2"`)
	if shown := u.ok("service-key", "mine", "k"); shown != made {
		t.Errorf("service-key: %s, create-service-key: %s", shown, made)
	}
	contains(t, u.ok("service-key", "mine", "k", "--json"), `"credentials": {`)
	contains(t, u.ok("services"), "name   offering   plan   keys   last operation     message",
		"mine   db         sync   1      create succeeded")
	contains(t, u.ok("service", "mine"), "plan:", "sync", "keys:", "k")
	u.fails("has a key k already", "create-service-key", "mine", "k")
	u.fails("Service broker error: wrong is no parameter of a key",
		"create-service-key", "mine", "bad", "-c", `{"wrong":1}`)
	u.fails("service instance mine has no key bad", "service-key", "mine", "bad")
	contains(t, u.ok("delete-service-key", "mine", "k"), "Deleted key k of service instance mine.")
	u.fails("service instance mine has no key k", "delete-service-key", "mine", "k")

	u.ok("create-service-key", "mine", "a")
	u.ok("create-service-key", "mine", "b")
	contains(t, u.ok("delete-service", "mine"), "Deleted service instance mine.")
	if instances, bindings := e.counts(); instances != 0 || bindings != 0 {
		t.Errorf("%d instances and %d bindings are left", instances, bindings)
	}
	u.fails("there is no service instance mine", "service", "mine")
}

func TestRequestsAreAsCloudControllers(t *testing.T) {
	t.Parallel()
	e := startEndpoint(t)
	u := newCaller(t, e)
	u.ok("create-service", "sync", "mine")
	u.ok("delete-service", "mine")
	const wantQuery = "accepts_incomplete=true&plan_id=sync-id&service_id=service-id"
	for _, r := range e.requests {
		if r.Header.Get("X-Broker-Api-Version") != "2.17" || r.Header.Get("X-Broker-Api-Request-Identity") == "" ||
			!strings.HasPrefix(r.Header.Get("X-Broker-Api-Originating-Identity"), platform+" ") {
			t.Errorf("%s %s: headers %v", r.Method, r.URL, r.Header)
		}
		if r.Method == http.MethodDelete && r.URL.RawQuery != wantQuery {
			t.Errorf("DELETE's query = %s", r.URL.RawQuery)
		}
	}
}

func TestAsyncInstanceShowsProgress(t *testing.T) {
	t.Parallel()
	e := startEndpoint(t)
	u := newCaller(t, e)
	u.fails("more than one offering has a plan async: name one of db/async, other/async",
		"create-service", "async", "mine")
	out, progress, err := u.run(t.Context(), "create-service", "db/async", "mine", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Name string
		Last operation `json:"last_operation"`
	}
	if err := json.Unmarshal([]byte(out), &document); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if document.Name != "mine" || document.Last.String() != "create succeeded" {
		t.Errorf("document = %+v", document)
	}
	if want := "Creating service instance mine: Copying (2 of 4)\n"; progress != want {
		t.Errorf("progress = %q, want %q", progress, want)
	}
	contains(t, u.ok("create-service-key", "mine", "k"), `"uri"`)
	contains(t, u.ok("delete-service", "mine"), "Deleted service instance mine.")
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	e := startEndpoint(t)
	u := newCaller(t, e)
	u.ok("create-service", "sync", "mine")
	u.fails("nothing to change", "update-service", "mine")
	u.ok("update-service", "mine", "-p", "async")
	contains(t, u.ok("service", "mine"), "async", "update succeeded")
	d := e.updates[0]
	if d.PlanID != "async-id" || string(d.RawParameters) != "{}" || d.PreviousValues.PlanID != "sync-id" ||
		d.MaintenanceInfo == nil || d.MaintenanceInfo.Version != "1.2.3" {
		t.Errorf("asked for %+v", d)
	}
	u.ok("update-service", "mine", "-c", `{"a":1}`)
	if d := e.updates[1]; d.PlanID != "async-id" || string(d.RawParameters) != `{"a":1}` || d.MaintenanceInfo != nil {
		t.Errorf("asked for %+v", d)
	}
	u.fails("there is no plan db/huge", "update-service", "mine", "-p", "huge")
}

func TestFailedCreateStaysUntilDeleted(t *testing.T) {
	t.Parallel()
	for plan, want := range map[string]string{"failing": "no room left", "broken": "out of disks"} {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			u := newCaller(t, startEndpoint(t))
			u.fails("Service broker error: "+want, "create-service", plan, "mine")
			contains(t, u.ok("services"), "create failed", want)
			u.ok("delete-service", "mine")
			contains(t, u.ok("services"), "No service instances")
		})
	}
}

func TestRefusedCreateLeavesNothing(t *testing.T) {
	t.Parallel()
	u := newCaller(t, startEndpoint(t))
	u.fails("Service broker error: wrong is no parameter of db", "create-service", "sync", "mine", "-c", `{"wrong":1}`)
	contains(t, u.ok("services"), "No service instances")
	u.fails("there is no plan huge; there are: sync, async", "create-service", "huge", "mine")
	u.fails("the parameters are not a JSON object: [1]", "create-service", "sync", "mine", "-c", "[1]")
}

// A context that ends is what Ctrl-C comes to.
func TestInterruptedWaitIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	e := startEndpoint(t)
	u := newCaller(t, e)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	failed := make(chan error, 1)
	go func() {
		_, _, err := u.run(ctx, "create-service", "held", "mine")
		failed <- err
	}()
	<-e.held
	interrupt()
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "the broker continues") {
		t.Fatalf("error = %v", err)
	}
	contains(t, u.ok("services"), "create in progress", "Held (1 of 2)")
	const busy = "instance is being updated"
	u.fails(busy, "update-service", "mine", "-p", "db/sync")
	u.fails(busy, "delete-service", "mine")
	contains(t, u.ok("services"), "held", "create in progress", "Held (1 of 2)")
	close(e.release)
	contains(t, u.ok("service", "mine"), "held", "create succeeded")
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	u := newCaller(t, startEndpoint(t))
	u.env["BROKER_PASSWORD"] = "guess"
	u.fails("the broker refuses the user name or password", "catalog")
}

func TestInventoryIsSecretAndPerBroker(t *testing.T) {
	t.Parallel()
	e := startEndpoint(t)
	u := newCaller(t, e)
	u.ok("create-service", "sync", "mine")
	u.ok("create-service-key", "mine", "k")
	file := u.env["MYSQL_BROKER_CLIENT_STATE"]
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v", info.Mode())
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "mysql://") {
		t.Errorf("credentials in %s", data)
	}
	contains(t, u.ok("services", "--url", startEndpoint(t).url), "No service instances")
}
