package operators

import (
	"bufio"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/openid"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Values that would do harm in a page that does not escape them.
const (
	evilID    = "a/b <script>alert(1)</script>'\"&%2F"
	evilName  = "<img src=x onerror=alert(2)>\x1b\u202e"
	evilTable = "<script>alert('x-y')</script>"
)

// TestDashboard reads the pages as an operator, a developer and a stranger, who sign in as on Cloud Foundry: the catalog
// registers the dashboard's client.
func TestDashboard(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	env := testdrive.Environment(t, server)
	env["CATALOG"] = testdrive.CatalogRetaining(t)
	env["BACKUP_STORE"] = "file://" + t.TempDir()
	of := openid.NewDashboard(t, env)
	maps.DeleteFunc(env, func(name, _ string) bool {
		return strings.HasPrefix(name, "OIDC_") || name == "CLOUD_CONTROLLER_URL"
	})
	maps.Copy(env, map[string]string{"DASHBOARD_CLIENT_ID": openid.ClientID, "DASHBOARD_CLIENT_SECRET": openid.ClientSecret,
		"VCAP_APPLICATION": testdrive.Encode(t, map[string]any{"application_name": "mysql-broker", "cf_api": of.Cloud.URL})})
	d := dashboardPeople{Dashboard: of, Platform: testdrive.StartPlatform(t, server, env),
		tasks: testdrive.OpenTasks(t, env), browsers: map[string]*openid.Browser{}}
	// The catalog has the dashboard's client, and where the client command prints it, no secret.
	services, _ := d.Do(t, "GET", "/v2/catalog", nil).Expect(t, http.StatusOK).Body["services"].([]any)
	back := d.Dashboard.URL + "/dashboard/sign-in/"
	assert.Equal(t, map[string]any{"id": openid.ClientID, "secret": openid.ClientSecret,
		"redirect_uri": back + "callback," + back + "out"}, services[0].(map[string]any)["dashboard_client"])
	shown := d.Terminal(t).Run(t, "catalog", "--json")
	assert.True(t, strings.Contains(shown, openid.ClientID) && !strings.Contains(shown, openid.ClientSecret),
		"the client prints the catalog with a secret, or without the dashboard's client: %s", shown)
	t.Run("pages", func(t *testing.T) { testPages(t, d) })
	t.Run("stop", func(t *testing.T) { testStopWithOpenPages(t, d) })
}

func testPages(t *testing.T, d dashboardPeople) {
	evil := d.NewInstanceCalled(t, "shared-small", url.PathEscape(evilID))
	fields := body{"context": body{"platform": "cloudfoundry", "instance_name": evilName, "organization_name": "org",
		"space_name": "space"}}
	for _, r := range []testdrive.Response{
		evil.Provision(t, testdrive.Sync, fields).Expect(t, http.StatusCreated),
		evil.Provision(t, testdrive.Sync, fields).Expect(t, http.StatusOK),
		evil.UpdatePlan(t, testdrive.Sync, "shared-large").Expect(t, http.StatusOK),
		evil.Fetch(t).Expect(t, http.StatusOK),
	} { // the id is one segment of the path
		assert.Equal(t, d.Dashboard.URL+"/dashboard/instances/"+url.PathEscape(evilID), r.String("dashboard_url"))
	}
	for _, person := range []string{openid.Developer, openid.Operator, openid.Stranger} {
		d.browsers[person] = openid.NewBrowser(t)
		d.browsers[person].LogIn(t, d.URL+"/dashboard/sign-in/", person)
	}
	for _, s := range []struct {
		name string
		run  func(*testing.T, dashboardPeople, testdrive.Instance)
	}{{"page of an instance", testInstancePage}, {"who sees what", testWhoSeesWhat}, {"headers", testDashboardHeaders},
		{"find", testFind}, {"deleted instances", testDeletedInstances},
		{"backups and copies", testBackupsAndCopies}} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.run(t, d, evil)
		})
	}
}

type dashboardPeople struct {
	testdrive.Platform
	openid.Dashboard
	tasks    testdrive.Tasks
	browsers map[string]*openid.Browser // by person, signed in
}

// open shows a page of the dashboard to a person. path begins behind /dashboard/.
func (d dashboardPeople) open(t *testing.T, person, path string) openid.Page {
	return d.browsers[person].Open(t, d.Dashboard.URL+"/dashboard/"+path)
}

func instancePage(id string) string { return "instances/" + url.PathEscape(id) }

func testInstancePage(t *testing.T, d dashboardPeople, i testdrive.Instance) {
	b, c := i.Bound(t, body{"parameters": body{"role": "admin"}, "bind_resource": body{"app_guid": "app-of-binding"}})
	i.Bound(t, body{"bind_resource": body{"app_guid": "another-app", "space_guid": "a-shared-space"}})
	db := c.Open(t)
	testdrive.Exec(t, db, "CREATE TABLE `"+evilTable+"` (id INT)")
	// Cloud Controller's ids are GUIDs, so that only operators get to this one.
	d.open(t, openid.Operator, instancePage(evilID)).Expect(t, http.StatusOK, "shared-large", "Ready",
		`&lt;img src=x onerror=alert(2)&gt;\u001b\u202e`, "org / space", "&lt;script&gt;alert(&#39;x-y&#39;)&lt;/script&gt;", b.BindingID,
		"app-of-binding", c.Username, "admin", "1 GiB", "of 60", "2 of 10 bindings", "of space <code>a-shared-space</code>",
		"read-only", "Provision", "Bind", map[string]string{"mysql": "MySQL", "mariadb": "MariaDB"}[i.Server.Flavour]).
		Lacks(t, "<script>alert", "<img src=x", c.Password, " style=", " onerror=\"", "javascript:")
	for _, query := range []string{"?range=week", "?range=none", "?range=%22%3E"} {
		d.open(t, openid.Operator, instancePage(evilID)+query).Expect(t, http.StatusOK, "Ready")
	}
}

func testWhoSeesWhat(t *testing.T, d dashboardPeople, _ testdrive.Instance) {
	i := d.Provisioned(t, "shared-small", nil)
	_, c := i.Bound(t, nil)
	d.Cloud.Allow(openid.Developer, i.ID, openid.Permission{Read: true})
	d.open(t, openid.Developer, instancePage(i.ID)).Expect(t, http.StatusOK, "Ready").
		Lacks(t, c.Username, c.Database, "Bindings", "Recent operations", "Tables")
	d.open(t, openid.Operator, instancePage(i.ID)).Expect(t, http.StatusOK, c.Username)

	none := d.open(t, openid.Stranger, instancePage(i.ID)).Expect(t, http.StatusNotFound, "no such service instance")
	unknown := d.open(t, openid.Stranger, instancePage("no-such-instance")).Expect(t, http.StatusNotFound, "")
	assert.Equal(t, unknown.Text, none.Text, "that there is an instance shows:\n%s\n%s", none.Text, unknown.Text)
	d.open(t, openid.Operator, instancePage("no-such-instance")).Expect(t, http.StatusNotFound, "no such service instance")
	d.open(t, openid.Stranger, instancePage(i.ID)+"/events").Expect(t, http.StatusNotFound, "")
	d.open(t, openid.Developer, "").Expect(t, http.StatusForbidden, "cf service NAME")
}

// Who may manage an instance sees what was deleted from its space, and how to take it back.
func testDeletedInstances(t *testing.T, d dashboardPeople, _ testdrive.Instance) {
	fields := body{"context": body{"platform": "cloudfoundry", "instance_name": evilName}, "space_guid": "space-of-deleted"}
	i, deleted := d.Provisioned(t, "shared-small", fields), d.Provisioned(t, "shared-small", fields)
	other := d.Provisioned(t, "shared-small", body{"context": body{"platform": "cloudfoundry"}})
	deleted.Delete(t)
	d.open(t, openid.Operator, instancePage(i.ID)).Expect(t, http.StatusOK, "Deleted from this space", `<img src=x onerror=alert(2)>\u001b\u202e`,
		`cf create-service OFFERING shared-small NAME -c '{"undelete":"`+deleted.ID+`"}'`).Lacks(t, "<img src=x")
	d.Cloud.Allow(openid.Developer, i.ID, openid.Permission{Read: true})
	d.open(t, openid.Developer, instancePage(i.ID)).Expect(t, http.StatusOK, "Ready").Lacks(t, deleted.ID)
	d.open(t, openid.Operator, instancePage(other.ID)).Expect(t, http.StatusOK, "Ready").Lacks(t, deleted.ID) // in another space
}

// A developer who may manage an instance sees its backups, and the copies that are being made of it.
func testBackupsAndCopies(t *testing.T, d dashboardPeople, _ testdrive.Instance) {
	i, c := testdrive.Cloneable(t, d.Platform, "shared-small")
	ids := []string{i.BackedUp(t), i.BackedUp(t), i.BackedUp(t)}
	d.tasks.Exec(t, "UPDATE backup SET verified_at = '2026-01-02 03:04:05Z' WHERE id = '"+ids[0]+"'")
	d.tasks.Exec(t, "UPDATE backup SET verify_error = 'damaged' WHERE id = '"+ids[1]+"'")
	d.tasks.Exec(t, "UPDATE backup SET verified_at = NULL WHERE id = '"+ids[2]+"'")

	lock, err := c.Open(t).Conn(t.Context()) // the copy waits for it
	require.NoError(t, err)
	defer lock.Close()
	testdrive.Exec(t, lock, "LOCK TABLES items WRITE")
	copied := d.NewInstance(t, "shared-large")
	operation := copied.Clone(t, i.ID, nil).Operation(t)
	var kept string // by the catalog's default
	d.tasks.Scan(t, &kept, "SELECT to_char(keep_until AT TIME ZONE 'UTC', 'YYYY-MM-DD') FROM backup WHERE id = '"+ids[2]+"'")
	d.open(t, openid.Operator, instancePage(i.ID)).Expect(t, http.StatusOK, "Copies under way", copied.ID, "shared-large",
		"2026-01-02", "Damaged", "not yet", `{"restore_backup":"BACKUP"`, ids[0], ids[1], ids[2], kept)
	testdrive.Exec(t, lock, "UNLOCK TABLES")
	copied.Await(t, operation)
	d.Cloud.Allow(openid.Developer, i.ID, openid.Permission{Read: true})
	d.open(t, openid.Developer, instancePage(i.ID)).Expect(t, http.StatusOK, "Ready").Lacks(t, ids[0], "Copies under way")
	d.open(t, openid.Operator, instancePage(copied.ID)).Expect(t, http.StatusOK, "Ready").Lacks(t, ids[0], "Copies under way")
}

func testDashboardHeaders(t *testing.T, d dashboardPeople, _ testdrive.Instance) {
	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/dashboard/", 200}, {"HEAD", "/dashboard/", 200}, {"GET", "/dashboard/nothing", 404},
		{"POST", "/dashboard/", 405}, {"DELETE", "/dashboard/instances/x", 405}, {"GET", "/dashboard/?find=%00", 400},
		{"GET", "/dashboard/?find=%ff", 400}, {"GET", "/dashboard/instances/%00", 400},
		{"GET", "/dashboard/?find=%zz", 400}, {"GET", "/dashboard/assets/x/nothing.css", 404},
		{"GET", "/dashboard/assets/x/..%2Froutes.go", 404},
	} {
		p, err := d.browsers[openid.Operator].Do(tt.method, d.Dashboard.URL+tt.path, nil, nil)
		require.NoError(t, err)
		assert.Equal(t, tt.status, p.Status, "%s %s", tt.method, tt.path)
		checkPageHeaders(t, tt.path, p.Header, "no-store")
	}
	page := d.open(t, openid.Operator, "").Expect(t, http.StatusOK, "Overview")
	for _, file := range []string{"dashboard.css", "dashboard.js", "icon.svg"} {
		before, rest, found := strings.Cut(page.Text, "/"+file+`"`)
		require.True(t, found, "the page does not name %s: %s", file, rest)
		address := d.Dashboard.URL + before[strings.LastIndex(before, `"`)+1:] + "/" + file
		asset := openid.NewBrowser(t).Open(t, address).Expect(t, http.StatusOK, "")
		checkPageHeaders(t, address, asset.Header, "public, max-age=31536000, immutable")
		old := openid.NewBrowser(t).Open(t, d.Dashboard.URL+"/dashboard/assets/older/"+file).Expect(t, http.StatusOK, "")
		checkPageHeaders(t, address, old.Header, "no-store")
	}
}

func checkPageHeaders(t *testing.T, path string, h http.Header, caching string) {
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
		"Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": caching} {
		assert.Equal(t, want, h.Get(name), "%s: %s", path, name)
	}
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'",
		"base-uri 'none'"} {
		policy := h.Get("Content-Security-Policy")
		assert.True(t, strings.Contains(policy, part) && !strings.Contains(policy, "unsafe"),
			"%s: the policy is %q", path, policy)
	}
}

// Operators find an instance by its id, its database, and its accounts.
func testFind(t *testing.T, d dashboardPeople, _ testdrive.Instance) {
	i := d.Provisioned(t, "shared-small", nil)
	_, c := i.Bound(t, nil)
	for _, find := range []string{i.ID, c.Database, c.Username} {
		found := d.open(t, openid.Operator, "?find="+url.QueryEscape(find)).Expect(t, http.StatusOK, i.ID)
		assert.True(t, strings.HasSuffix(found.URL.Path, "/dashboard/instances/"+i.ID), "%s was found at %s", find, found.URL)
	}
	d.open(t, openid.Operator, "?find="+url.QueryEscape("<b>")).Expect(t, http.StatusOK, "Nothing is called <code>&lt;b&gt;")
}

// A broker that stops does not wait for pages that are open, nor do they wait for it.
func testStopWithOpenPages(t *testing.T, d dashboardPeople) {
	i := d.MakeOwn(t, "shared-small") // which outlives the broker
	operator := openid.NewBrowser(t)
	operator.LogIn(t, d.Dashboard.URL+"/dashboard/", openid.Operator)
	cookie := operator.Cookies(t, d.Dashboard.URL, "session")[0].Value
	q, err := http.NewRequestWithContext(t.Context(), "GET", d.Dashboard.URL+"/dashboard/"+instancePage(i.ID)+"/events", nil)
	require.NoError(t, err)
	q.Header.Set("Accept", "text/event-stream")
	operator.Client.Timeout = 0
	answer, err := operator.Client.Do(q)
	require.NoError(t, err)
	defer answer.Body.Close()
	events := bufio.NewReader(answer.Body)
	first, err := events.ReadString('\n')
	require.NoError(t, err, "the stream is answered %d, %q", answer.StatusCode, first)
	require.Equal(t, "text/event-stream", answer.Header.Get("Content-Type"))
	d.Signal(t, syscall.SIGTERM)
	_, _ = io.Copy(io.Discard, events)
	assert.Equal(t, 0, d.Wait(t), "the broker ended with")
	assert.False(t, strings.Contains(d.Log(), "requests were still running after the drain time"),
		"the broker waited for the page until the drain time was over")
	for _, secret := range []string{openid.ClientSecret, cookie, "eyJ"} {
		assert.False(t, strings.Contains(d.Log(), secret), "the log has the secret %q", secret)
	}
}
