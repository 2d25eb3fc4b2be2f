package signin_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/broker/signin"
	"mysql-broker/test/openid"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// The instance that the developer may manage, and one that he may only look at.
const (
	managed = "5a0c1f3e-0000-4000-8000-000000000001"
	visible = "5a0c1f3e-0000-4000-8000-000000000002"
)

// dashboard is one behind a router that spreads requests over its replicas.
type dashboard struct {
	URL      string
	records  testdrive.Tasks
	provider *openid.Provider
	cloud    *openid.CloudController // nil where there is none
}

// at is the address of an instance's page.
func (d dashboard) at(instanceID string) string {
	return d.URL + "/dashboard/instances/" + url.PathEscape(instanceID)
}

// shown is what a page of the dashboard shows here.
type shown struct {
	Viewer signin.Viewer
	Access signin.Access
	Path   string
}

// start runs a dashboard on Cloud Foundry with that many replicas.
func start(t *testing.T, replicas int) dashboard {
	return startWith(t, replicas, openid.Start(t, openid.Options{}), func(*signin.Config) {})
}

// startWith runs a dashboard whose configuration is changed.
func startWith(t *testing.T, replicas int, provider *openid.Provider, change func(*signin.Config)) dashboard {
	postgres := servers.Postgres(t)
	d := dashboard{records: testdrive.OpenTasks(t, map[string]string{"DATABASE_URL": postgres}), provider: provider,
		cloud: openid.StartCloudController(t, provider)}
	d.cloud.Allow(openid.Developer, managed, openid.Permission{Manage: true, Read: true})
	d.cloud.Allow(openid.Developer, visible, openid.Permission{Read: true})
	all := make([]http.Handler, replicas)
	var next atomic.Int64
	router := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all[int(next.Add(1))%replicas].ServeHTTP(w, r)
	}))
	d.URL = "http://" + router.Listener.Addr().String()
	external, err := url.Parse(d.URL)
	require.NoError(t, err)
	for i := range all {
		cfg := signin.Config{ExternalURL: external, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
			Store: servers.OpenStore(t, postgres), // with a keyset of its own: sessions need none
			Provider: signin.Provider{ClientID: openid.ClientID, ClientSecret: openid.ClientSecret,
				Scopes: []string{"openid", "cloud_controller_service_permissions.read"}},
			CloudController: d.cloud.URL, OperatorGroup: openid.OperatorGroup}
		change(&cfg)
		if cfg.CloudController == "" {
			d.cloud = nil
		}
		if cfg.ExternalURL.Scheme == "https" {
			d.URL = strings.Replace(d.URL, "http:", "https:", 1)
		}
		all[i] = serve(signin.New(cfg))
	}
	if strings.HasPrefix(d.URL, "https:") {
		router.StartTLS()
	} else {
		router.Start()
	}
	t.Cleanup(router.Close)
	return d
}

// serve puts pages behind a sign-in, and a stream that ends with its request.
func serve(s *signin.SignIn) http.Handler {
	page := s.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, _ := signin.FromContext(r.Context())
		access, err := s.Access(r, r.PathValue("id"))
		if err != nil {
			s.Unavailable(w, r, err)
			return
		}
		json.NewEncoder(w).Encode(shown{v, access, r.URL.RequestURI()})
	}))
	stream := s.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "begun")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	mux := http.NewServeMux()
	mux.Handle(signin.Path, s.Handler())
	mux.Handle("/dashboard/", page)
	mux.Handle("/dashboard/instances/{id}", page)
	mux.Handle("/dashboard/stream", stream)
	return mux
}

// expect fails the test unless a page shows what somebody may see.
func expect(t *testing.T, p openid.Page, person string, access signin.Access) {
	var got shown
	require.NoError(t, json.Unmarshal([]byte(p.Text), &got),
		"%s shows no page of the dashboard: %d\n%s", p.URL, p.Status, p.Text)
	require.True(t, got.Viewer.Name == person && got.Access == access &&
		got.Viewer.Operator == (person == openid.Operator), "%s shows %+v, wanted %s with access %d", p.URL, got, person, access)
	assert.Equal(t, p.URL.RequestURI(), got.Path, "the broker answered")
}
