// Package kubernetes tests the compiled broker with dedicated servers on Kubernetes.
package kubernetes

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/audit"
	kubernetes "mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Dedicated servers on Kubernetes: an instance is created, used, enlarged and deleted, while a broker is killed at every
// point between the calls of the API server, and another one goes on. What the broker forgets, doctor finds and removes.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	onKubernetes.Start(t)
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env, inspectors := testdrive.OnKubernetes(t, testdrive.Environment(t, private), s.Flavour, &onKubernetes, "")
		immortal := maps.Clone(env)
		faults := testdrive.NewFaults(t, env)
		m := newMortals(t, faults, testdrive.OpenTasks(t, env), func() testdrive.Platform { return testdrive.StartPlatform(t, private, env) })
		world := audit.World{Records: audit.OpenRecords(t, env["DATABASE_URL"], env["ENCRYPTION_KEYSET"]), Shared: m.Admin(t),
			Launchers: inspectors, Plans: testdrive.Plans(t)}
		check := func(when string, reported audit.Reported) {
			t.Helper()
			world.Reported = reported
			for _, sentence := range audit.Check(t.Context(), world) {
				t.Errorf("%s: %s", when, sentence)
			}
		}

		i := m.OwnInstance(t, "dedicated-small")
		m.run(t, &i, http.MethodPut, i.Path()+testdrive.Async, i.ProvisionBody(nil))
		m.expectDeaths(t, "launch: state made", "launch: volume claimed", "launch: address made", "launch: pod ordered",
			"launch: answers")
		b, c := i.Bound(t, nil)
		testdrive.UseAsApplication(t, c)
		_, larger := testdrive.Plan(t, "dedicated-large")
		m.run(t, &i, http.MethodPatch, i.Path()+testdrive.Async, body{"service_id": i.ServiceID, "plan_id": larger})
		m.expectDeaths(t, "resize: recorded", "resize: volume grown", "resize: pod resized", "resize: template changed")
		n := testdrive.Read[int](t, c.Open(t), "SELECT COUNT(*) FROM fruit")
		assert.Equal(t, 3, n, "%d rows are left of 3", n)
		login := audit.Credentials{Host: c.Host, Port: c.Port, Username: c.Username, Password: c.Password,
			Database: c.Database, CACertificate: c.CACertificate}
		check("in use", audit.Reported{
			Instances: []audit.Instance{{ID: i.ID, PlanID: larger, State: audit.Exists}},
			Bindings:  []audit.Binding{{InstanceID: i.ID, ID: b.BindingID, State: audit.Exists, Credentials: login}}})
		testdrive.ExpectLine(t, testdrive.RunDoctor(t, immortal).Expect(t, 0).Stdout, "limited", "launcher", "kubernetes", "digest")

		lost := m.MakeOwn(t, "dedicated-small")
		testdrive.OpenTasks(t, env).Exec(t, "DELETE FROM instance WHERE id = '"+lost.ID+"'")
		testdrive.ExpectLine(t, testdrive.RunDoctor(t, immortal).Expect(t, 1).Stdout, "orphan", "dedicated server", "--repair")
		testdrive.ExpectLine(t, testdrive.RunDoctor(t, immortal, "--repair").Expect(t, 0).Stdout, "orphan", "destroyed")
		testdrive.RunDoctor(t, immortal).Expect(t, 0)

		m.run(t, &i, http.MethodDelete, i.Deletion(i.Path(), testdrive.Async), nil)
		m.expectDeaths(t, "destroy: looked", "destroy: deleted")
		check("deleted", audit.Reported{Instances: []audit.Instance{{ID: i.ID, State: audit.Gone}, {ID: lost.ID, State: audit.Gone}}})
	})
}

// A server on Kubernetes is upgraded, while a broker is killed at every point between the calls of the API server, and
// another one goes on. The first upgrade fails, and the server continues with the version and the earlier data.
func TestKubernetesUpgrade(t *testing.T) {
	t.Parallel()
	onKubernetes.Start(t)
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env, inspectors := testdrive.OnKubernetes(t, testdrive.Environment(t, private), s.Flavour, &onKubernetes, "")
		all := kubernetes.Binaries()
		present := all[slices.IndexFunc(all, func(b mysqld.Binary) bool { return b.Flavour == s.Flavour })]
		next := servers.Renumbered(t, present)
		offered := env["LAUNCHER_IMAGES"]
		p := testdrive.StartPlatform(t, private, env)
		i := p.MakeOwn(t, "dedicated-small")
		c := testdrive.MakeObjects(t, i)
		p.Kill(t)
		upgrade := body{"service_id": i.ServiceID, "plan_id": i.PlanID, "maintenance_info": body{"version": next.Version}}

		env["LAUNCHER_IMAGES"] = offered + addImage(t, "broken", present, next.Version, brokenProgram(t, present))
		m := newMortals(t, testdrive.NewFaults(t, env), testdrive.OpenTasks(t, env), func() testdrive.Platform {
			return testdrive.StartPlatform(t, private, env)
		})
		m.runUntil(t, "failed", &i, http.MethodPatch, i.Path()+testdrive.Async, upgrade)
		m.expectDeaths(t, "upgrade: copy claimed", "upgrade: recorded", "upgrade: pod ordered", "revert: restored",
			"launch: answers", "upgrade: server back")
		i.ExpectVersion(t, m.Platform, env, present.Version)
		m.Kill(t)

		env["LAUNCHER_IMAGES"] = offered + addImage(t, "later", present, next.Version, next)
		m = newMortals(t, testdrive.NewFaults(t, env), testdrive.OpenTasks(t, env), func() testdrive.Platform {
			return testdrive.StartPlatform(t, private, env)
		})
		m.run(t, &i, http.MethodPatch, i.Path()+testdrive.Async, upgrade)
		m.expectDeaths(t, "upgrade: copy claimed", "upgrade: recorded", "upgrade: pod ordered", "upgrade: compared",
			"launch: answers", "upgrade: server back")
		i.ExpectVersion(t, m.Platform, env, next.Version)
		n := testdrive.Read[int](t, c.Open(t), "SELECT COUNT(*) FROM items")
		assert.Equal(t, 2, n, "%d rows are left of 2", n)
		m.run(t, &i, http.MethodDelete, i.Deletion(i.Path(), testdrive.Async), nil)
		_, problems := inspectors["kubernetes"].Inspect(nil, nil)
		assert.Empty(t, problems)
	})
}

// addImage makes an image like that of a program, with another one, and returns its entry in LAUNCHER_IMAGES.
func addImage(t *testing.T, prefix string, like mysqld.Binary, version string, b mysqld.Binary) string {
	name, err := onKubernetes.Node.AddImage(t.Context(), prefix, kubernetes.ImageName(like), b)
	require.NoError(t, err)
	return fmt.Sprintf(",%s-%s=%s", like.Flavour, version, name)
}

// brokenProgram makes an installation whose mysqld does not start.
func brokenProgram(t *testing.T, b mysqld.Binary) mysqld.Binary {
	dir, err := os.MkdirTemp("", "broken") // the node's containers pass through as another user
	require.NoError(t, errors.Join(err, os.Chmod(dir, 0o755)))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	tree := filepath.Join(dir, "tree")
	require.NoError(t, servers.LinkTree(b, tree))
	script := "#!/bin/sh\necho it is broken >&2\nexit 1\n"
	require.NoError(t, servers.WriteProgram(filepath.Join(tree, "bin", filepath.Base(b.Path)), []byte(script)))
	b.BaseDir = tree
	return b
}

// mortals is a broker that dies at the points of the launcher, at each one once, and the brokers that take its place.
type mortals struct {
	testdrive.Platform
	start func() testdrive.Platform
	tasks testdrive.Tasks
	died  chan string // the points
	all   []string
	logs  string // of those that died
}

func newMortals(t *testing.T, faults *testdrive.Faults, tasks testdrive.Tasks, start func() testdrive.Platform) *mortals {
	m := &mortals{start: start, tasks: tasks, Platform: start(), died: make(chan string, 100)}
	decide := make(chan map[string]bool, 1)
	decide <- map[string]bool{}
	faults.Decide(func(_ int, point string) testdrive.Word {
		step, _, _ := strings.Cut(point, ":")
		if !slices.Contains([]string{"launch", "resize", "destroy", "upgrade", "revert"}, step) {
			return testdrive.GoOn
		}
		before := <-decide
		defer func() { decide <- before }()
		if before[point] {
			return testdrive.GoOn
		}
		before[point] = true
		m.died <- point
		return testdrive.Die
	})
	return m
}

// send repeats a request until a broker responds.
func (m *mortals) send(t *testing.T, method, path string, fields any) testdrive.Response {
	t.Helper()
	for deadline := time.Now().Add(limits.Stuck); time.Now().Before(deadline); {
		select {
		case point := <-m.died:
			m.all = append(m.all, point)
			m.Wait(t)
			m.logs += m.Log()
			m.Platform = m.start()
			testdrive.ExpireLeases(t, m.tasks.Pool)
		default:
		}
		if r, err := m.Send(method, path, fields, nil); err == nil {
			return r
		}
		time.Sleep(20 * time.Millisecond) // it is about to end
	}
	t.Fatalf("no broker responds to %s", path)
	panic("not reached")
}

// run sends a request, and polls until its operation has succeeded.
func (m *mortals) run(t *testing.T, i *testdrive.Instance, method, path string, fields any) {
	m.runUntil(t, "succeeded", i, method, path, fields)
}

// runUntil sends a request, and polls until its operation has ended as wanted.
func (m *mortals) runUntil(t *testing.T, wanted string, i *testdrive.Instance, method, path string, fields any) {
	t.Helper()
	accepted := m.send(t, method, path, fields).Expect(t, http.StatusAccepted)
	for deadline := time.Now().Add(6 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		r := m.send(t, http.MethodGet, i.Path()+"/last_operation?operation="+accepted.String("operation"), nil)
		switch state := r.Expect(t, http.StatusOK).String("state"); {
		case state == wanted:
			*i = i.Via(m.Platform)
			return
		case state != "in progress" || time.Now().After(deadline):
			t.Fatalf("%s %s: %s", method, path, r.Raw)
		}
	}
}

// expectDeaths fails the test unless brokers have died at these points since it was last called.
func (m *mortals) expectDeaths(t *testing.T, points ...string) {
	for _, point := range points {
		assert.True(t, slices.Contains(m.all, point), "no broker died at %q, only at %q", point, m.all)
	}
	m.all = nil
}

// Two launchers of the kind kubernetes work side by side: each plan has its servers in the namespace of its launcher.
func TestTwoKubernetesLaunchers(t *testing.T) {
	t.Parallel()
	onKubernetes.Start(t)
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		env, inspectors := testdrive.OnKubernetes(t, testdrive.Environment(t, s), s.Flavour, &onKubernetes, "near", "far")
		p := testdrive.StartPlatform(t, s, env)
		at := map[string]testdrive.Instance{"near": p.OwnInstance(t, "dedicated-small"), "far": p.OwnInstance(t, "dedicated-large")}
		operations := map[string]string{}
		for name, i := range at {
			operations[name] = i.BeginProvision(t)
		}
		shown := p.Operator(env)
		for name, i := range at {
			i.Await(t, operations[name])
			_, c := i.Bound(t, nil)
			c.Open(t)
			testdrive.ExpectLine(t, shown.Run(t, 0, "servers", "--dedicated").Stdout, i.ID, name)
		}
		testdrive.RunDoctor(t, env).Expect(t, 0)
		for name, inspector := range inspectors { // which finds the Secret, the volume, the address, the set and the pod
			_, problems := inspector.Inspect(nil, nil)
			assert.Len(t, problems, 5, "what nobody needs at %s", name)
		}
		at["near"].Remove(t)
		at["far"].Remove(t)
		for name, inspector := range inspectors {
			_, problems := inspector.Inspect(nil, nil)
			assert.Empty(t, problems, "left at %s", name)
		}
		// A broker starts while the API server of one launcher is down, and works with the servers of the other launcher.
		down := maps.Clone(env)
		down["LAUNCHER_FAR_API"] = "https://127.0.0.1:1"
		half := testdrive.StartPlatform(t, s, down)
		near := half.OwnInstance(t, "dedicated-small")
		near.Await(t, near.BeginProvision(t))
		near.Remove(t)
		half.Signal(t, syscall.SIGTERM)
		half.Wait(t)
	})
}

// onKubernetes is the cluster of all tests.
var onKubernetes kubernetes.Shared

type body = testdrive.Body

func TestMain(m *testing.M) { servers.Main(m, onKubernetes.Close) }
