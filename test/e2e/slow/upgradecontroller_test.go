package slow

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"mysql-broker/test/testdrive"
)

// The client with which operators upgrade.
const (
	controllerClient = "upgrader"
	controllerSecret = "the upgrader's secret"
)

// upgradeController imitates what Cloud Controller and UAA do when a client upgrades a service instance, by their
// documentation: https://v3-apidocs.cloudfoundry.org/#update-a-service-instance, #get-a-job, and OSB API 2.17,
// "Updating a Service Instance". It knows one instance. A request that it does not expect fails the test.
type upgradeController struct {
	URL string

	t        testing.TB
	instance testdrive.Instance // with the broker that is asked

	mu        sync.Mutex
	token     string
	job       string
	operation string
	asked     string // the version of the job
	busy      bool   // an operation is in progress, as Cloud Controller knows it
	has       string // the version of the instance, as Cloud Controller knows it
}

func startUpgradeController(t testing.TB, p testdrive.Platform, i testdrive.Instance) *upgradeController {
	t.Helper()
	c := &upgradeController{t: t, instance: i.Via(p)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		c.respond(w, http.StatusOK, map[string]any{"links": map[string]any{"uaa": map[string]string{"href": c.URL + "/uaa"}}})
	})
	mux.HandleFunc("POST /uaa/oauth/token", c.grant)
	mux.HandleFunc("PATCH /v3/service_instances/{guid}", c.authorized(c.patch))
	mux.HandleFunc("GET /v3/jobs/{guid}", c.authorized(c.poll))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("to Cloud Controller: %s %s", r.Method, r.URL)
		http.NotFound(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// version is that of the instance, as Cloud Controller knows it.
func (c *upgradeController) version() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.has
}

func (c *upgradeController) setBusy(busy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = busy
}

func (c *upgradeController) respond(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		c.t.Error(err)
	}
}

func (c *upgradeController) refuse(w http.ResponseWriter, status int, detail string) {
	c.respond(w, status, map[string]any{"errors": []map[string]any{{"code": 10008, "title": "CF-Refused", "detail": detail}}})
}

func (c *upgradeController) grant(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("grant_type") != "client_credentials" || r.PostFormValue("client_id") != controllerClient ||
		r.PostFormValue("client_secret") != controllerSecret {
		c.respond(w, http.StatusUnauthorized, map[string]string{"error": "unauthorized"})
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = uuid.NewString()
	c.respond(w, http.StatusOK, map[string]any{"access_token": c.token, "token_type": "bearer", "expires_in": 3600})
}

func (c *upgradeController) authorized(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer "+c.token {
			c.refuse(w, http.StatusUnauthorized, "Invalid Auth Token")
			return
		}
		handle(w, r)
	}
}

func (c *upgradeController) patch(w http.ResponseWriter, r *http.Request) {
	var q struct {
		MaintenanceInfo *struct {
			Version string `json:"version"`
		} `json:"maintenance_info"`
	}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&q); err != nil || q.MaintenanceInfo == nil || r.Header.Get("Content-Type") != "application/json" {
		c.t.Errorf("to Cloud Controller: %v, %+v, %v", err, q, r.Header)
	}
	if r.PathValue("guid") != c.instance.ID {
		c.refuse(w, http.StatusNotFound, "Service instance not found")
		return
	}
	if c.busy {
		c.respond(w, http.StatusConflict, map[string]any{"errors": []map[string]any{{"code": 60016,
			"title": "CF-AsyncServiceInstanceOperationInProgress", "detail": "An operation for service instance db is in progress."}}})
		return
	}
	c.asked = q.MaintenanceInfo.Version
	a, err := c.instance.Send("PATCH", c.instance.Path()+testdrive.Async, body{"service_id": c.instance.ServiceID,
		"plan_id": c.instance.PlanID, "maintenance_info": body{"version": c.asked},
		"previous_values": body{"plan_id": c.instance.PlanID, "service_id": c.instance.ServiceID}}, nil)
	switch {
	case err != nil:
		c.refuse(w, http.StatusBadGateway, err.Error())
	case a.Status == http.StatusAccepted:
		c.job, c.operation = uuid.NewString(), a.String("operation")
		w.Header().Set("Location", c.URL+"/v3/jobs/"+c.job)
		w.WriteHeader(http.StatusAccepted)
	case a.Status == http.StatusOK:
		c.has = c.asked
		c.respond(w, http.StatusOK, map[string]string{"guid": c.instance.ID})
	default:
		c.refuse(w, http.StatusUnprocessableEntity, a.String("description"))
	}
}

func (c *upgradeController) poll(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("guid") != c.job {
		c.refuse(w, http.StatusNotFound, "Job not found")
		return
	}
	var last testdrive.Response
	last, err := c.instance.Send("GET", c.instance.Path()+"/last_operation?operation="+c.operation, nil, nil)
	job := map[string]any{"guid": c.job, "operation": "service_instance.update", "state": "POLLING",
		"created_at": time.Now(), "errors": []any{}}
	switch {
	case err != nil:
		c.t.Error(err)
	case last.String("state") == "succeeded":
		job["state"], c.has = "COMPLETE", c.asked
	case last.String("state") == "failed":
		job["state"] = "FAILED"
		job["errors"] = []any{map[string]any{"code": 10009, "title": "CF-UnableToPerform",
			"detail": "update could not be completed: " + last.String("description")}}
	}
	c.respond(w, http.StatusOK, job)
}
