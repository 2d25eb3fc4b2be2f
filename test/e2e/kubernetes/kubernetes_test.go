// Package kubernetes tests upgrades of dedicated servers on Kubernetes with the compiled broker, which is killed meanwhile.
// The launcher's other calls are cut off in its own package, and in test/chaos.
package kubernetes

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	kubernetes "mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/platform"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A server on Kubernetes is upgraded, while a broker is killed at every point between the calls of the API server, and
// another one goes on. The first upgrade fails, and the server continues with the version and the earlier data.
func TestKubernetesUpgrade(t *testing.T) {
	t.Parallel()
	onKubernetes.Start(t)
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env, inspectors := testdrive.OnKubernetes(t, testdrive.Environment(t, private), s.Flavour, &onKubernetes)
		all := kubernetes.Binaries()
		present := all[slices.IndexFunc(all, func(b mysqld.Binary) bool { return b.Flavour == s.Flavour })]
		next := servers.Renumbered(t, present)
		offered := env["LAUNCHER_IMAGES"]
		p := testdrive.StartPlatform(t, private, env)
		i := p.MakeOwn(t, "dedicated-small")
		c := testdrive.MakeObjects(t, i)
		p.Kill(t)
		upgrade := body{"service_id": i.ServiceID, "plan_id": i.PlanID, "maintenance_info": body{"version": next.Version}}

		broken := servers.Altered(t, present, next, filepath.Base(present.Path), "echo it is broken >&2\nexit 1\n")
		env["LAUNCHER_IMAGES"] = offered + addImage(t, "broken", present, next.Version, broken)
		m := newMortals(t, testdrive.NewFaults(t, env), testdrive.OpenTasks(t, env), func() testdrive.Platform {
			return testdrive.StartPlatform(t, private, env)
		})
		m.run(t, true, &i, http.MethodPatch, i.Path()+testdrive.Async, upgrade)
		m.expectDeaths(t, "upgrade: copy claimed", "upgrade: recorded", "upgrade: pod ordered", "revert: restored",
			"launch: answers", "upgrade: server back")
		i.ExpectVersion(t, m.Platform, env, present.Version)
		m.Kill(t)

		env["LAUNCHER_IMAGES"] = offered + addImage(t, "later", present, next.Version, next)
		m = newMortals(t, testdrive.NewFaults(t, env), testdrive.OpenTasks(t, env), func() testdrive.Platform {
			return testdrive.StartPlatform(t, private, env)
		})
		m.run(t, false, &i, http.MethodPatch, i.Path()+testdrive.Async, upgrade)
		m.expectDeaths(t, "upgrade: copy claimed", "upgrade: recorded", "upgrade: pod ordered", "upgrade: compared",
			"launch: answers", "upgrade: server back")
		i.ExpectVersion(t, m.Platform, env, next.Version)
		n := testdrive.Read[int](t, c.Open(t), "SELECT COUNT(*) FROM items")
		assert.Equal(t, 2, n, "%d rows are left of 2", n)
		m.run(t, false, &i, http.MethodDelete, i.Deletion(i.Path(), testdrive.Async), nil)
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

// mortals is a broker that dies at the points of the launcher, at each one once, and the brokers that take its place.
type mortals struct {
	testdrive.Platform
	world platform.World
	died  chan string // the points
	all   []string
}

func newMortals(t *testing.T, faults *testdrive.Faults, tasks testdrive.Tasks, start func() testdrive.Platform) *mortals {
	m := &mortals{Platform: start(), died: make(chan string, 100)}
	m.world = platform.World{PollEach: 50 * time.Millisecond,
		Send: func(method, path string, body any) (testdrive.Response, error) {
			return m.Send(method, path, body, nil)
		},
		Lost: func() bool {
			select {
			case point := <-m.died:
				m.all = append(m.all, point)
				m.Wait(t)
				m.Platform = start()
				testdrive.ExpireLeases(t, tasks.Pool)
			default: // it is about to end
			}
			return true
		}}
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

// run carries out an operation, which has to succeed or to fail.
func (m *mortals) run(t *testing.T, fails bool, i *testdrive.Instance, method, path string, fields any) {
	_, err := m.world.Run(platform.Request{Kind: method, Method: method, Path: path, Body: fields, InstanceID: i.ID})
	if fails {
		require.ErrorContains(t, err, method+" failed: ")
	} else {
		require.NoError(t, err)
	}
	*i = i.Via(m.Platform)
}

// expectDeaths fails the test unless brokers have died at these points since it was last called.
func (m *mortals) expectDeaths(t *testing.T, points ...string) {
	for _, point := range points {
		assert.True(t, slices.Contains(m.all, point), "no broker died at %q, only at %q", point, m.all)
	}
	m.all = nil
}

// onKubernetes is the cluster of all tests.
var onKubernetes kubernetes.Shared

type body = testdrive.Body

func TestMain(m *testing.M) { servers.Main(m, onKubernetes.Close) }
