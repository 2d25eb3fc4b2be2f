package browser

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	_ "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/openid"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// world is a broker with a dashboard.
type world struct {
	testdrive.Platform
	openid.Dashboard
	records testdrive.Tasks
	faults  *testdrive.Faults
}

func newWorld(t *testing.T, s servers.MySQL) world {
	return newWorldWith(t, s, func(map[string]string) {})
}

func newWorldWith(t *testing.T, s servers.MySQL, configure func(env map[string]string)) world {
	env := testdrive.Environment(t, s)
	env["QUOTA_INTERVAL"] = "1s"
	configure(env)
	w := world{Dashboard: openid.NewDashboard(t, env), records: testdrive.OpenTasks(t, env), faults: testdrive.NewFaults(t, env)}
	w.Platform = testdrive.Platform{Broker: testdrive.Start(t, env), Seen: &testdrive.Secrets{}}
	return w
}

// instance is a service instance with a readable name, which the developer may manage.
type instance struct {
	testdrive.Instance
	page string // address
}

func (w world) order(t *testing.T, plan, name string) (i instance, operation string) {
	i.Instance = w.OwnInstance(t, plan)
	w.Cloud.Allow(openid.Developer, i.ID, openid.Permission{Manage: true, Read: true})
	r := i.Provision(t, testdrive.Async, testdrive.Body{"context": testdrive.Body{"platform": "cloudfoundry",
		"instance_name": name, "organization_name": "acme", "space_name": "shop"}})
	require.False(t, r.Status != http.StatusCreated && r.Status != http.StatusAccepted,
		"provision: %d %s", r.Status, r.Raw)
	i.page = r.String("dashboard_url")
	return i, r.String("operation")
}

// own is order for an instance that goes with the test.
func (w world) own(t *testing.T, plan, name string) instance {
	i, operation := w.order(t, plan, name)
	t.Cleanup(func() { i.Remove(t) })
	if operation != "" {
		i.Await(t, operation)
	}
	return i
}

// openOrders makes an instance called orders, and has somebody open its page.
func openOrders(t *testing.T, who string) (instance, *tab) {
	i := newWorld(t, servers.Any(t)).own(t, "shared-small", "orders")
	b := newTab(t)
	b.signIn(i.page, who)
	return i, b
}

func (i instance) bind(t *testing.T, appGUID, role string) (id string, c testdrive.Credentials) {
	fields := testdrive.Body{"parameters": testdrive.Body{"role": role}}
	if appGUID != "" {
		fields["bind_resource"] = testdrive.Body{"app_guid": appGUID}
	}
	b, c := i.Bound(t, fields)
	return b.BindingID, c
}

// A developer signs in and watches the creation of a dedicated server, without reloading the page.
func TestLiveProgress(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		w := newWorld(t, s)
		gates := testdrive.Hold(t, w.faults, "provision: create database: begins", "provision: check login: begins")
		defer gates[0].Release()
		defer gates[1].Release()
		i, _ := w.order(t, "dedicated-small", "orders")
		t.Cleanup(func() { i.Remove(t) })
		b := newTab(t)
		b.signIn(i.page, openid.Developer)
		eval[bool](b, "window.untouched = true")
		progress := func(step int, says string) {
			b.await(says, fmt.Sprintf(`document.querySelector("#operation progress")?.value === %d &&
				document.getElementById("operation").innerText.includes(%q)`, step, says))
		}
		progress(2, "Creating the database")
		assert.Equal(t, "orders", b.text("h1"))
		assert.Equal(t, "Being created", b.text(".heading .mark"))
		b.screenshot("progress-" + s.Flavour)
		gates[0].Release()
		progress(3, "Checking the first login")
		gates[1].Release()
		b.await("the end of the operation", `document.getElementById("operation").innerText.startsWith("Created")`)
		b.await("the state", `document.querySelector(".heading .mark").innerText === "Ready"`)
		id, c := i.bind(t, "", "read-only")
		b.await("the new binding", restShows(id))
		c.Open(t)
		assert.True(t, eval[bool](b, "window.untouched === true"), "the page was loaded anew")
		assert.Equal(t, "status", eval[string](b, `document.getElementById("operation").getAttribute("role")`),
			"what is told live has the role")
		i.Remove(t)
		b.await("the deletion", `document.getElementById("operation").innerText.includes("has been deleted")`)
		assert.Equal(t, "Deleted", b.text(".heading .mark"))
		assert.Empty(t, b.text("#live"))
		b.forgive("404", i.page) // it may have asked for itself just then
	})
}

// A broken stream is opened again, and the page shows what happened meanwhile.
func TestReconnect(t *testing.T) {
	t.Parallel()
	env := testdrive.Environment(t, servers.Any(t))
	w := world{Dashboard: openid.NewDashboard(t, env)}
	w.Platform = testdrive.Platform{Broker: testdrive.Start(t, env), Seen: &testdrive.Secrets{}}
	i, _ := w.order(t, "shared-small", "orders")
	b := newTab(t)
	defer func() { // while the second broker runs
		b.open("about:blank") // the page would ask for itself just as it goes
		i.Remove(t)
	}()
	b.signIn(i.page, openid.Developer)
	seen, _ := i.bind(t, "", "read-only")
	b.await("what the stream tells of", restShows(seen))
	i.Kill(t)
	b.await("that the connection is lost", `document.getElementById("live").innerText.includes("lost")`)
	b.heard() // browsers complain of it
	i.Broker = testdrive.Start(t, env)
	id, _ := i.bind(t, "", "read-only")
	b.await("the binding made meanwhile", restShows(id))
	b.await("that the connection is back", `document.getElementById("live").hidden`)

	i.Kill(t)
	answerBadGateway(t, w.Dashboard.URL)
	i.Broker = testdrive.Start(t, env)
	id, _ = i.bind(t, "", "read-only")
	b.await("the binding made after other answers", restShows(id))
	b.await("that the connection is back again", `document.getElementById("live").hidden`)
	b.heard()
}

// answerBadGateway stands in for a broker until a page has asked for events, as a router does while the broker is
// replaced: browsers do not try again by themselves after that.
func answerBadGateway(t *testing.T, broker string) {
	t.Helper()
	listener, err := net.Listen("tcp", strings.TrimPrefix(broker, "http://"))
	require.NoError(t, err)
	asked := make(chan struct{}, 1)
	router := http.Server{ReadHeaderTimeout: limits.Stuck, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusBadGateway)
		if strings.HasSuffix(r.URL.Path, "/events") {
			select {
			case asked <- struct{}{}:
			default:
			}
		}
	})}
	done := make(chan error, 1)
	go func() { done <- router.Serve(listener) }()
	testdrive.Receive(t, asked, "the page tries to connect again")
	assert.NoError(t, router.Shutdown(t.Context()))
	assert.ErrorIs(t, <-done, http.ErrServerClosed)
}

// However many tabs show instances, each that somebody looks at is up to date: browsers have six connections to a
// server at a time.
func TestManyTabs(t *testing.T) {
	t.Parallel()
	i, b := openOrders(t, openid.Developer)
	first := b
	for range 7 {
		b = b.another()
		b.open(i.page)
	}
	id, _ := i.bind(t, "", "read-only")
	shows := restShows(id)
	b.await("the new binding in the last tab", shows)
	assert.False(t, eval[bool](first, shows), "a tab that nobody looks at is kept up to date")
	first.do(page.BringToFront())
	first.await("the new binding in the first tab", shows)
}

// A page says so when its viewer has signed out on another one.
func TestSignedOutElsewhere(t *testing.T) {
	t.Parallel()
	i, b := openOrders(t, openid.Developer)
	other := b.another()
	other.open(i.page)
	other.do(chromedp.Submit(`form[action="/dashboard/sign-in/out"]`, chromedp.ByQuery))
	other.await("the sign-out", `!document.getElementById("instance")`)
	b.do(page.BringToFront())
	b.await("that it says so", `document.getElementById("live").innerText.includes("You are signed out")`)
	b.heard() // the responses to its stream
}

// Somebody else sees nothing, not even that there is an instance.
func TestStranger(t *testing.T) {
	t.Parallel()
	_, b := openOrders(t, openid.Stranger)
	assert.Contains(t, b.text("body"), "Service instance not found")
	assert.NotContains(t, b.text("body"), "orders")
	b.screenshot("stranger")
	heard := b.heard()
	assert.True(t, len(heard) == 1 && strings.Contains(heard[0], "404"), "of the page itself, the console says: %q", heard)
	b.do(chromedp.Click(".viewer button", chromedp.ByQuery))
	b.await("the page after the provider's sign-out", `document.body?.innerText.includes("the provider may still know you")`)
	for _, theme := range []string{"light", "dark"} {
		b.theme(theme)
		checkContrast(t, b, theme)
		b.screenshot("signed-out-" + theme)
	}
}

// The page of an instance that is used: everything on it, in both themes, by keyboard and without JavaScript.
func TestInstancePage(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		w := newWorld(t, s)
		i := w.own(t, "shared-small", "orders")
		_, c := i.bind(t, "7d3f5a0e-8f0e-4e3c-9a7e-0d6a3c1b2f44", "read-write")
		i.bind(t, "", "read-only")
		fill(t, w, i, c)
		b := newTab(t)
		b.signIn(i.page+"?range=day", openid.Developer)
		checkPlot(t, b)
		for _, theme := range []string{"light", "dark"} {
			b.theme(theme)
			checkContrast(t, b, theme)
			b.screenshot("instance-" + theme + "-" + s.Flavour)
		}
		b.expectWidths(t, "instance-"+s.Flavour)
		b.theme("light")
		checkKeyboard(t, b)
		local := b.text("dl time")
		b.do(emulation.SetScriptExecutionDisabled(true))
		b.open(i.page)
		read := b.text("main")
		for _, want := range []string{"orders", "Ready", "100 MiB", "customers", "read-only", "Recent operations", "UTC",
			"Connect", "--host=127.0.0.1 --port="} {
			assert.Contains(t, read, want, "without JavaScript")
		}
		assert.NotContains(t, local, "UTC", "with JavaScript")
		b.screenshot("instance-without-javascript-" + s.Flavour)
	})
}

// expectWidths expects that a page is no wider than a screen, small ones included.
func (b *tab) expectWidths(t *testing.T, name string) {
	for _, width := range []int64{1280, 390, 320} {
		b.do(emulation.SetDeviceMetricsOverride(width, 800, 1, width < 1000))
		wide := eval[int64](b, "document.documentElement.scrollWidth")
		assert.True(t, wide <= width, "on a screen of %d pixels, the page is %d wide", width, wide)
		b.screenshot(fmt.Sprintf("%s-%d", name, width))
	}
	b.do(emulation.ClearDeviceMetricsOverride())
}

// fill makes tables, and a history of which the broker measured the end.
func fill(t *testing.T, w world, i instance, c testdrive.Credentials) {
	db := c.Open(t)
	for n, table := range []string{"customers", "orders", "order_items", "invoices"} {
		testdrive.Exec(t, db, "CREATE TABLE "+table+" (id INT AUTO_INCREMENT PRIMARY KEY, filling LONGBLOB)",
			fmt.Sprintf("INSERT INTO %s (filling) VALUES (REPEAT('x', %d << 20))", table, n+1))
	}
	w.records.Until(t, "the broker has measured the data", `SELECT EXISTS (SELECT FROM storage_usage
		JOIN instance USING (database_name) WHERE id = $1 AND bytes >= $2::bigint << 20)`, i.ID, 1+2+3+4)
	for n, mebibytes := range []int{4, 16, 37, 43, 60, 20} { // some hours ago
		w.records.Exec(t, `INSERT INTO storage_sample (database_name, at, bytes)
			SELECT database_name, now() - $2 * '1 hour'::interval, $3::bigint << 20 FROM instance WHERE id = $1`,
			i.ID, 20-3*n, mebibytes)
	}
}

// Operators see everything: servers, instances, operations and findings.
func TestOverview(t *testing.T) {
	t.Parallel()
	var upgrade string
	server := testdrive.Private(t, servers.Any(t).Flavour) // what other tests leave on a server would be found
	w := newWorldWith(t, server, func(env map[string]string) { upgrade = testdrive.OfferUpgrade(t, env).String() })
	var dedicated instance
	for n, name := range []string{"orders", "customers", "invoices"} {
		i := w.own(t, []string{"shared-small", "shared-large", "dedicated-small"}[n], name)
		i.bind(t, "", "read-write")
		if n == 2 {
			dedicated = i
		}
	}
	_, large := testdrive.Plan(t, "dedicated-large") // as which the instance of dedicated-small is recorded
	w.records.Exec(t, "UPDATE instance SET plan_id = $2 WHERE id = $1", dedicated.ID, large)
	b := newTab(t)
	b.signIn(w.Dashboard.URL+"/dashboard/", openid.Operator)
	testdrive.Eventually(t, "the first examination", func() bool {
		b.open(w.Dashboard.URL + "/dashboard/")
		return strings.Contains(b.text("main"), "when it last compared")
	})
	read := b.text("main")
	for _, want := range []string{"Nothing is left over", "orders", "shared-large", "Upgrade to " + upgrade} {
		assert.Contains(t, read, want)
	}
	for _, theme := range []string{"light", "dark"} {
		b.theme(theme)
		checkContrast(t, b, theme)
		b.screenshot("overview-" + theme)
	}
	b.expectWidths(t, "overview")
	b.follow(`//tbody//a[text()="customers"]`, chromedp.BySearch)
	b.await("the instance", `document.querySelector("h1")?.innerText === "customers"`)
	b.open(dedicated.page)
	b.await("the upgrade", fmt.Sprintf(`document.querySelector("main")?.innerText.includes(
		"An upgrade of the server to %s is available: cf upgrade-service invoices.")`, upgrade))
}
