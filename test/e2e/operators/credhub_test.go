package operators

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/credhub"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// credHubDesk is a broker that stores credentials in a CredHub.
type credHubDesk struct {
	testdrive.Instance
	hub   *credhub.Server
	env   map[string]string
	tasks testdrive.Tasks
	start func() // starts a broker, after the former one has ended
}

// TestCredHub uses an imitation of CredHub: see package credhub.
func TestCredHub(t *testing.T) {
	eachCredHubDesk(t, func(t *testing.T, d *credHubDesk) {
		t.Run("references", d.references)
		t.Run("doctor", d.doctor)
		t.Run("moved and deleted", d.movedAndDeleted)
	})
}

// A CredHub may be away, and may refuse.
func TestCredHubAway(t *testing.T) {
	eachCredHubDesk(t, func(t *testing.T, d *credHubDesk) {
		t.Run("away during a bind", d.awayDuringBind)
		t.Run("away during an unbind", d.awayDuringUnbind)
		t.Run("away during a rotation", d.awayDuringRotation)
		t.Run("without permission", d.withoutPermission)
	})
}

func eachCredHubDesk(t *testing.T, run func(*testing.T, *credHubDesk)) {
	t.Parallel()
	server := servers.Any(t)
	env := testdrive.Environment(t, server)
	d := &credHubDesk{hub: credhub.Start(t), env: env, tasks: testdrive.OpenTasks(t, env)}
	d.hub.Environment(env)
	d.start = func() {
		d.Platform = testdrive.StartPlatform(t, server, env) // until the whole test ends
		d.Seen.Add(credhub.Secret)
	}
	d.start()
	d.Instance = d.OwnInstance(t, "shared-small")
	d.Provision(t, testdrive.Sync, nil).Expect(t, http.StatusCreated)
	run(t, d)
}

// app are the fields of a bind request for an application, and its identity in CredHub.
func app() (fields body, reader string) {
	guid := uuid.NewString()
	return body{"bind_resource": body{"app_guid": guid}}, "mtls-app:" + guid
}

// reference returns the name in a response that has nothing else in its credentials.
func (d *credHubDesk) reference(t *testing.T, r testdrive.Response) string {
	name, _ := testdrive.Field(r.Body, "credentials", "credhub-ref").(string)
	all, _ := r.Body["credentials"].(map[string]any)
	require.True(t, len(all) == 1 && strings.HasPrefix(name, credhub.Path+"/"), "the credentials are %v", r.Raw)
	return name
}

// readAs returns the credentials that a reader gets from CredHub.
func (d *credHubDesk) readAs(t *testing.T, reader, name string) testdrive.Credentials {
	value, allowed := d.hub.Read(reader, name)
	require.True(t, allowed, "%s may not read %s", reader, name)
	return d.Credentials(t, testdrive.Response{Body: map[string]any{"credentials": value}})
}

// expectOnly fails the test unless CredHub has exactly these credentials, each with one permission.
func (d *credHubDesk) expectOnly(t *testing.T, names ...string) {
	there, permissions := d.contents()
	assert.True(t, len(there) == len(names) && len(permissions) == len(names),
		"CredHub has %v and %v, wanted %v", there, permissions, names)
}

// contents returns what CredHub has, without the credential that the broker stores and deletes to see whether it may.
func (d *credHubDesk) contents() (names []string, permissions []credhub.Permission) {
	const probe = "/probe/credentials"
	names, permissions = d.hub.Contents()
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, probe) }),
		slices.DeleteFunc(permissions, func(p credhub.Permission) bool { return strings.HasSuffix(p.Path, probe) })
}

// awaitNothing waits until CredHub has neither credentials nor permissions.
func (d *credHubDesk) awaitNothing(t *testing.T) {
	testdrive.Eventually(t, "CredHub has nothing", func() bool {
		there, permissions := d.contents()
		return len(there)+len(permissions) == 0
	})
}

func (d *credHubDesk) references(t *testing.T) {
	fields, reader := app()
	b := d.NewBinding()
	r := b.Bind(t, fields).Expect(t, http.StatusCreated)
	name := d.reference(t, r)
	c := d.readAs(t, reader, name)
	c.Open(t)
	_, other := app()
	for _, somebody := range []string{other, "uaa-client:" + credhub.CloudController} {
		_, allowed := d.hub.Read(somebody, name)
		assert.False(t, allowed, "%s may read the credentials", somebody)
	}
	for _, again := range []testdrive.Response{b.Bind(t, fields), b.Fetch(t)} {
		assert.Equal(t, name, d.reference(t, again.Expect(t, http.StatusOK)), "the reference changed: %s", again.Raw)
	}
	d.expectOnly(t, name)

	successor := d.NewBinding()
	next := d.reference(t, d.Do(t, "PUT", successor.Path(), body{"predecessor_binding_id": b.BindingID}).
		Expect(t, http.StatusCreated))
	assert.NotEqual(t, c.Username, d.readAs(t, reader, next).Username, "the successor has its predecessor's account")
	testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusOK)
	d.expectOnly(t, next)

	// Cloud Controller reads the credentials of a service key for its owner, if it has a client for that.
	key := d.NewBinding()
	keyName := d.reference(t, key.Bind(t, body{"bind_resource": body{
		"credential_client_id": credhub.CloudController}}).Expect(t, http.StatusCreated))
	d.readAs(t, "uaa-client:"+credhub.CloudController, keyName).Open(t)
	plain, _ := d.Bound(t, nil)
	d.expectOnly(t, next, keyName)

	before := d.readAs(t, reader, next)
	d.Operator(d.env).Run(t, 0, "rotate-bindings", "--instance", d.ID, "--apply")
	testdrive.Eventually(t, "CredHub has the new password", func() bool {
		return d.readAs(t, reader, next).Password != before.Password
	})
	testdrive.Eventually(t, "the account has it", func() bool {
		return testdrive.Connect(t, d.readAs(t, reader, next).Fields(t)).PingContext(t.Context()) == nil
	})

	fields["parameters"] = body{"ttl": "1s"}
	d.NewBinding().Bind(t, fields).Expect(t, http.StatusCreated)
	testdrive.Eventually(t, "the expired credentials are deleted", func() bool {
		there, _ := d.hub.Contents()
		return len(there) == 2
	})
	for _, x := range []testdrive.Binding{successor, key, plain} {
		testdrive.ExpectEmpty(t, x.Unbind(t), http.StatusOK)
	}
	d.expectOnly(t)
}

func unavailable(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "bad gateway", http.StatusBadGateway)
}

func (d *credHubDesk) isAway() { d.hub.Answer("", "", "", unavailable) }

func (d *credHubDesk) awayDuringBind(t *testing.T) {
	const grant = "/api/v2/permissions"
	for name, fail := range map[string]func(){
		"is away":                    d.isAway,
		"stores, but grants nothing": func() { d.hub.Answer("POST", grant, "", unavailable) },
		"does it, but the response is lost": func() {
			d.hub.Answer("POST", grant, "", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			fail()
			fields, reader := app()
			b := d.NewBinding()
			r := b.Bind(t, fields)
			assert.True(t, r.Status >= 500 && strings.Contains(r.String("description"), "could not be stored in CredHub"),
				"%d %s", r.Status, r.Raw)
			b.Fetch(t).Expect(t, http.StatusNotFound)
			d.hub.Meet(nil)
			found := d.reference(t, b.Bind(t, fields).Expect(t, http.StatusCreated))
			d.readAs(t, reader, found).Open(t)
			testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusOK)
		})
	}
	d.hub.Allow(false)
	b := d.NewBinding()
	fields, _ := app()
	testdrive.ExpectRefusal(t, b.Bind(t, fields), http.StatusServiceUnavailable, "could not be stored in CredHub")
	d.AwaitLog(t, "you do not have sufficient authorization")
	d.hub.Allow(true)
	d.awaitNothing(t)
	var names []string
	d.tasks.Scan(t, &names, "SELECT array_agg(name) FROM resource WHERE kind = 'account' AND instance_id = $1", d.ID)
	require.NotEmpty(t, names, "no accounts are recorded")
	for _, name := range names {
		assert.False(t, testdrive.AccountExists(t, d.Platform, name), "the account %s is there", name)
	}
}

// The account ends at once. What CredHub has is deleted when it answers again.
func (d *credHubDesk) awayDuringUnbind(t *testing.T) {
	fields, reader := app()
	b := d.NewBinding()
	c := d.readAs(t, reader, d.reference(t, b.Bind(t, fields).Expect(t, http.StatusCreated)))
	d.isAway()
	testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusOK)
	testdrive.ExpectRefused(t, c.Fields(t))
	there, _ := d.hub.Contents()
	assert.NotEmpty(t, there, "nothing is left to delete")
	d.hub.Meet(nil)
	testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusGone)
	d.awaitNothing(t)
}

// While CredHub is away, no password changes. If it fails in between, it gets the new one later, and the output says so.
func (d *credHubDesk) awayDuringRotation(t *testing.T) {
	fields, reader := app()
	b := d.NewBinding()
	name := d.reference(t, b.Bind(t, fields).Expect(t, http.StatusCreated))
	before := d.readAs(t, reader, name)
	rotate := func(status int, says string) {
		out := d.Operator(d.env).Run(t, status, "rotate-bindings", "--instance", d.ID, "--apply")
		assert.True(t, strings.Contains(out.Stdout+out.Stderr, says),
			"it does not say %q: %s %s", says, out.Stdout, out.Stderr)
	}
	d.isAway()
	rotate(1, "not changed: 1")
	before.Open(t)
	d.hub.Answer("PUT", "", name, unavailable)
	rotate(0, "CredHub gets the new password when it answers again")
	testdrive.ExpectRefused(t, before.Fields(t))
	d.hub.Meet(nil)
	d.tasks.Exec(t, "UPDATE credhub_entry SET checked_at = '-infinity'")
	testdrive.Eventually(t, "CredHub has the new password", func() bool {
		return d.readAs(t, reader, name).Password != before.Password
	})
	d.readAs(t, reader, name).Open(t)
	testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusOK)
	d.awaitNothing(t)
}

// CredHub says the same about what it lacks and what the broker may not delete. The record stays until the broker has
// deleted the credentials, also if they are where an earlier configuration had them.
func (d *credHubDesk) withoutPermission(t *testing.T) {
	const elsewhere = "/c/another-path"
	d.hub.Grant("uaa-client:"+credhub.Client, elsewhere)
	fields, _ := app()
	old := d.NewBinding()
	name := d.reference(t, old.Bind(t, fields).Expect(t, http.StatusCreated))
	testdrive.StopBroker(t, d.Platform)
	d.env["CREDHUB_PATH"] = elsewhere
	d.start()
	old.Platform = d.Platform
	d.expectCredentials(t, map[string]string{})

	probed := make(chan struct{})
	probe := sync.OnceFunc(func() { close(probed) })
	d.hub.Meet(func(w http.ResponseWriter, r *http.Request, asUsual http.HandlerFunc) {
		sent, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(sent))
		if assert.NoError(t, err); r.Method == http.MethodPut && bytes.Contains(sent, []byte("/probe/")) {
			assert.Contains(t, string(sent), credhub.Path, "the broker checks whether it may delete although it has deleted")
			probe()
		}
		asUsual(w, r)
	})
	fields, reader := app()
	b := d.NewBinding()
	b.Platform = d.Platform
	next, _ := testdrive.Field(b.Bind(t, fields).Expect(t, http.StatusCreated).Body, "credentials", "credhub-ref").(string)
	d.readAs(t, reader, next)
	assert.True(t, strings.HasPrefix(next, elsewhere+"/"), "under another path, the reference is %s", next)
	testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusOK)
	d.hub.Allow(false)
	testdrive.ExpectEmpty(t, old.Unbind(t), http.StatusOK)
	ts := d.tasks
	ts.Exec(t, "UPDATE credhub_entry SET ended_at = now() - interval '1 h' WHERE name IN ('"+name+"', '"+next+"')")
	testdrive.Receive(t, probed, "the broker checks whether it may delete")
	d.expectCredentials(t, map[string]string{"orphan": name})
	d.hub.Allow(true)
	d.awaitNothing(t)
	ts.Until(t, "the records are deleted",
		"SELECT NOT EXISTS (SELECT FROM credhub_entry WHERE name IN ('"+name+"', '"+next+"'))")
	d.hub.Meet(nil)
}

func (d *credHubDesk) doctor(t *testing.T) {
	fields, reader := app()
	b := d.NewBinding()
	name := d.reference(t, b.Bind(t, fields).Expect(t, http.StatusCreated))
	const foreign = credhub.Path + "/somebody-else"
	d.hub.Lose(name, nil)
	d.hub.Lose(foreign, map[string]any{"not": "ours"})
	d.expectCredentials(t, map[string]string{"missing": name, "unrecorded": foreign})
	testdrive.RunDoctor(t, d.env, "--repair")
	testdrive.Eventually(t, "it is stored again", func() bool {
		_, allowed := d.hub.Read(reader, name)
		return allowed
	})
	want := d.readAs(t, reader, name)
	d.hub.Lose(name, map[string]any{"password": "the former one, from a backup of CredHub"})
	d.expectCredentials(t, map[string]string{"deviating": name, "unrecorded": foreign})
	testdrive.RunDoctor(t, d.env, "--repair")
	testdrive.Eventually(t, "the right password is stored again", func() bool {
		return d.readAs(t, reader, name).Password == want.Password
	})
	testdrive.Exec(t, d.Admin(t), "ALTER USER "+want.Username+" IDENTIFIED BY 'replaced after the backup of PostgreSQL'")
	d.hub.Lose(name, map[string]any{"password": "replaced after the backup of PostgreSQL"})
	testdrive.ExpectLine(t, testdrive.RunDoctor(t, d.env, "--repair").Stdout, "deviating", name, "rotate-bindings")
	testdrive.Exec(t, d.Admin(t), "ALTER USER "+want.Username+" IDENTIFIED BY '"+want.Password+"'")
	testdrive.RunDoctor(t, d.env, "--repair")
	testdrive.Eventually(t, "the password is stored again", func() bool {
		return d.readAs(t, reader, name).Password == want.Password
	})
	d.hub.Lose(foreign, nil)
	const probe = credhub.Path + "/deeper/probe/credentials" // another broker checks whether it may delete there
	d.hub.Lose(probe, map[string]any{})
	stop := bindOverAndOver(t, d.Instance, func() body {
		fields, _ := app()
		return fields
	})
	for range 5 { // while bindings come and go
		d.expectCredentials(t, map[string]string{})
	}
	stop()
	d.hub.Lose(probe, nil)
	d.isAway()
	d.expectCredentials(t, map[string]string{"unreachable": "CredHub"})
	d.hub.Meet(nil)
	testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusOK)
	d.tasks.Exec(t, "UPDATE credhub_entry SET ended_at = now() - interval '1 h' WHERE name = '"+name+"'")
	d.expectCredentials(t, map[string]string{}) // it is deleted, though its record is not
}

// expectCredentials compares what doctor finds in CredHub: the names by problem.
func (d *credHubDesk) expectCredentials(t *testing.T, want map[string]string) {
	out := testdrive.RunDoctor(t, d.env, "--json")
	var report struct {
		Findings []struct{ Problem, Kind, Name string }
	}
	err := json.Unmarshal([]byte(out.Stdout), &report)
	require.NoError(t, err, "%v: %s %s", err, out.Stdout, out.Stderr)
	found := map[string]string{}
	for _, f := range report.Findings {
		if f.Kind == "credential" || f.Kind == "CredHub" {
			found[f.Problem] = f.Name
		}
	}
	assert.True(t, maps.Equal(found, want), "doctor finds %v, wanted %v: %s", found, want, out.Stdout)
}

// A moved instance has another address, which its applications get when they restart. What is deleted with its instance
// does not stay in CredHub.
func (d *credHubDesk) movedAndDeleted(t *testing.T) {
	fields, reader := app()
	name := d.reference(t, d.NewBinding().Bind(t, fields).Expect(t, http.StatusCreated))
	before := d.readAs(t, reader, name)
	i := d.Instance
	d.Await(t, d.UpdatePlan(t, testdrive.Async, "dedicated-small").Operation(t))
	testdrive.Eventually(t, "CredHub has the new address", func() bool {
		return d.readAs(t, reader, name).Port != before.Port
	})
	d.readAs(t, reader, name).Open(t)
	_, i.PlanID = testdrive.Plan(t, "dedicated-small")
	i.Remove(t)
	d.awaitNothing(t)
}
