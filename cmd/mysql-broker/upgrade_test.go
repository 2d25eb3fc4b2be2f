package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/store"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// upgradedRow is a row of the output of --json.
type upgradedRow struct {
	InstanceID string `json:"instance_id"`
	Plan       string
	Server     string
	From, To   string
	Result     string
	Reason     string
}

// TestUpgradeAll upgrades several servers by one command: through Cloud Controller where the platform is Cloud Foundry,
// and by tasks elsewhere, which the test ends as brokers do. A canary fails.
func TestUpgradeAll(t *testing.T) {
	t.Parallel()
	env := testdrive.AnyEnvironment(t)
	present, err := mysqld.ReadBinary(env["LAUNCHER_MYSQLD"])
	require.NoError(t, err)
	s := servers.OpenStoreWith(t, env["DATABASE_URL"], env["ENCRYPTION_KEYSET"])
	const earlier = "1.0.0"
	serviceID, planID := testdrive.Plan(t, "dedicated-small")
	for n := range 4 {
		i := store.InstanceCopy{ID: fmt.Sprint("i", n), ServiceID: serviceID, PlanID: planID, Database: fmt.Sprint("db_", n)}
		at := store.DedicatedLocation("process", fmt.Sprint("d_", n))
		if n == 0 {
			i.Context, i.SpaceGUID = json.RawMessage(`{"platform":"cloudfoundry"}`), "a-space"
		}
		require.NoError(t, s.InTx(t.Context(), func(tx *store.Tx) error { tx.Adopt(i, at); return nil }))
	}
	tasks := testdrive.OpenTasks(t, env)
	tasks.Exec(t, "UPDATE instance SET state = 'ready', server_flavour = $1, server_version = $2", present.Flavour, earlier)
	controller := startController(t, func() {
		tasks.Exec(t, "UPDATE instance SET server_version = $1 WHERE id = 'i0'", present.Version)
	})
	endUpgrades(t, tasks, present.Version)
	upgrade := func(status int, args ...string) (rows []upgradedRow) {
		out := testdrive.Run(t, env, append([]string{"upgrade", "--json"}, args...)...).Expect(t, status)
		require.NoError(t, json.Unmarshal([]byte(out.Stdout), &rows), "%q %q", out.Stdout, out.Stderr)
		slices.SortFunc(rows, func(a, b upgradedRow) int { return cmp.Compare(a.InstanceID, b.InstanceID) })
		return rows
	}
	expect := func(rows []upgradedRow, want ...string) {
		var results []string
		for _, r := range rows {
			results = append(results, r.Result)
		}
		require.True(t, slices.Equal(results, want), "%+v instead of %q", rows, want)
	}
	due := upgrade(0)
	expect(due, "", "", "", "")
	require.True(t, due[0].From == earlier && due[0].To == present.Version && due[0].Plan == "dedicated-small",
		"due are %+v", due)
	expect(upgrade(0, "--plan", "dedicated-large"))
	expect(upgrade(0, "--space", "a-space"), "")
	out := testdrive.Run(t, env, "upgrade", "--all").Expect(t, 1)
	assert.True(t, strings.Contains(out.Stderr, "CLOUD_CONTROLLER_CLIENT"), "without a client: %+v", out)
	maps.Copy(env, map[string]string{"CLOUD_CONTROLLER_URL": controller.URL,
		"CLOUD_CONTROLLER_CLIENT": controllerClient, "CLOUD_CONTROLLER_CLIENT_SECRET": controllerSecret})

	controller.state.Store("FAILED")
	rows := upgrade(1, "--all", "--canaries", "2", "--max-in-flight", "2")
	expect(rows, "failed", "upgraded", "not begun", "not begun")
	assert.True(t, strings.Contains(rows[0].Reason, "a test wants it to fail"), "it failed for this reason: %+v", rows[0])
	// A developer's update of the last one is in progress. It ends when the one before has been upgraded.
	tasks.Exec(t, `INSERT INTO task (instance_id, kind, plan_id, run_at) VALUES ('i3', 'update', '', now() + interval '1 h')`)
	go testdrive.Eventually(t, "the one before is upgraded", func() (ended bool) {
		tasks.Scan(t, &ended, `WITH ended AS (UPDATE task SET state = 'succeeded', finished_at = now() WHERE instance_id = 'i3' AND
			run_at > now() AND EXISTS (SELECT FROM instance WHERE id = 'i2' AND server_version = '`+present.Version+`') RETURNING 1)
			SELECT EXISTS (SELECT FROM ended)`)
		return ended
	})
	controller.state.Store("busy")
	expect(upgrade(1, "--all", "--canaries", "1", "--max-in-flight", "2"), "skipped", "upgraded", "upgraded")
	controller.state.Store("COMPLETE")
	expect(upgrade(0, "--all"), "upgraded")
	expect(upgrade(0, "--all"))
}

// endUpgrades ends upgrades by tasks as brokers do, until the test ends.
func endUpgrades(t *testing.T, tasks testdrive.Tasks, version string) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		for tick := time.NewTicker(20 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			_, err := tasks.Pool.Exec(ctx, `WITH due AS (UPDATE task SET state = 'succeeded', finished_at = now()
				WHERE state = 'in progress' AND kind = 'update' AND run_at <= now() RETURNING instance_id)
				UPDATE instance SET server_version = $1 FROM due WHERE id = instance_id`, version)
			if err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	}()
}

// The client with which operators upgrade.
const (
	controllerClient = "upgrader"
	controllerSecret = "the upgrader's secret"
)

// controller imitates what Cloud Controller and UAA do when a client upgrades a service instance, by their documentation:
// https://v3-apidocs.cloudfoundry.org/#update-a-service-instance, #get-a-job. It knows the instance i0. A request that it
// does not expect fails the test.
type controller struct {
	URL   string
	state atomic.Value // of the job, or "busy"
}

// startController starts one, which calls upgrade when it upgrades the instance.
func startController(t *testing.T, upgrade func()) *controller {
	c := &controller{}
	respond := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		assert.NoError(t, json.NewEncoder(w).Encode(v))
	}
	fault := func(code int, detail string) []map[string]any {
		return []map[string]any{{"code": code, "detail": detail}}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, map[string]any{"links": map[string]any{"uaa": map[string]string{"href": c.URL + "/uaa"}}})
	})
	mux.HandleFunc("POST /uaa/oauth/token", func(w http.ResponseWriter, r *http.Request) {
		assert.True(t, r.FormValue("grant_type") == "client_credentials" &&
			r.PostFormValue("client_id") == controllerClient && r.PostFormValue("client_secret") == controllerSecret,
			"to UAA: %v", r.PostForm)
		respond(w, http.StatusOK, map[string]any{"access_token": "a-token", "token_type": "bearer", "expires_in": 3600})
	})
	mux.HandleFunc("PATCH /v3/service_instances/i0", func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			MaintenanceInfo struct{ Version string } `json:"maintenance_info"`
		}
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&q))
		assert.True(t, q.MaintenanceInfo.Version != "" && r.Header.Get("Authorization") == "Bearer a-token" &&
			r.Header.Get("Content-Type") == "application/json", "to Cloud Controller: %+v, %v", q, r.Header)
		if c.state.Load() == "busy" {
			respond(w, http.StatusConflict, map[string]any{"errors": fault(60016, "An operation for service instance db is in progress.")})
			return
		}
		w.Header().Set("Location", "https://elsewhere.example.com/v3/jobs/a-job") // only its path counts
		w.WriteHeader(http.StatusAccepted)
	})
	var asked atomic.Int32
	mux.HandleFunc("GET /v3/jobs/a-job", func(w http.ResponseWriter, _ *http.Request) {
		switch state := c.state.Load(); {
		case asked.Add(1)%2 == 1:
			respond(w, http.StatusOK, map[string]any{"state": "POLLING", "errors": []any{}})
		case state == "FAILED":
			respond(w, http.StatusOK, map[string]any{"state": state, "errors": fault(10009, "a test wants it to fail")})
		default:
			upgrade()
			respond(w, http.StatusOK, map[string]any{"state": state, "errors": []any{}})
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("to Cloud Controller: %s %s", r.Method, r.URL)
		http.NotFound(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}
