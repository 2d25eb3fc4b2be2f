package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mysql-broker/provisioner/launcher/kubernetes/kubernetestest"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/audit"
	kubernetes "mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// An instance with three members on Kubernetes is created, used, enlarged, upgraded and deleted, while a broker is
// killed at every point between the calls of the API server, and another one goes on. The backup before the upgrade is
// read from a secondary. An application writes again after the pod of the primary is deleted. A broker without images
// that can form groups does not start with such a plan.
func TestKubernetesGroup(t *testing.T) {
	t.Parallel()
	onKubernetes.Start(t)
	node, played := onKubernetes.Node.(*kubernetes.Node)
	if !played {
		t.Skip("it needs three nodes")
	}
	all := kubernetes.Binaries()
	at := slices.IndexFunc(all, func(b mysqld.Binary) bool { return b.Flavour == mysqld.MySQL })
	if at < 0 {
		t.Skip("no program of MySQL is installed")
	}
	present := all[at]
	server := testdrive.Private(t, present.Flavour) // nobody else's data is on it
	env, inspectors := testdrive.OnKubernetes(t, testdrive.Environment(t, server), present.Flavour, &onKubernetes, "")
	withMembers(t, env)
	cluster := inspectors["kubernetes"].(kubernetestest.Inspector)
	if err := node.AddNodes(t.Context(), cluster.Namespace, 2); err != nil {
		t.Fatal(err)
	}
	m := newMortals(t, testdrive.NewFaults(t, env), testdrive.OpenTasks(t, env), func() testdrive.Platform {
		return testdrive.StartPlatform(t, server, env)
	})
	i := m.OwnInstance(t, "dedicated-small")
	m.run(t, &i, http.MethodPut, i.Path()+testdrive.Async, i.ProvisionBody(nil))
	m.expectDeaths(t, "launch: state made", "launch: address made", "launch: member ordered", "launch: group formed")
	b, c := i.Bound(t, nil)
	testdrive.UseAsApplication(t, c)
	testdrive.ExpectLine(t, m.Operator(env).Run(t, 0, "servers", "--dedicated").Stdout, i.ID, "primary")

	before, path := primaryPod(t, cluster)
	status, response, err := cluster.Call(t.Context(), http.MethodDelete, path, nil)
	if err != nil || status != http.StatusOK {
		t.Fatalf("delete %s: %d %s %v", path, status, response, err)
	}
	testdrive.Eventually(t, limits.Stuck, "there is another primary", func() bool {
		now, _ := primaryPod(t, cluster)
		return now != before
	})
	application := testdrive.Connect(t, c.Fields(t))
	testdrive.Eventually(t, limits.Stuck, "the application writes again", func() bool {
		_, err := application.ExecContext(t.Context(), "INSERT INTO fruit (name) VALUES ('plum')")
		return err == nil
	})
	m.Kill(t)
	env["BACKUP_STORE"] = "file://" + t.TempDir()
	_, larger := testdrive.Plan(t, "dedicated-large")
	next := servers.Renumbered(t, present)
	env["LAUNCHER_IMAGES"] += addImage(t, "group", present, next.Version, next)
	m.Platform, m.logs = m.start(), ""
	m.run(t, &i, http.MethodPatch, i.Path()+testdrive.Async, body{"service_id": i.ServiceID, "plan_id": larger,
		"maintenance_info": body{"version": next.Version}})
	m.expectDeaths(t, "resize: recorded", "resize: volume grown", "resize: settings changed", "roll: pod deleted",
		"upgrade: recorded", "upgrade: member recorded", "upgrade: member ordered", "upgrade: pod deleted",
		"upgrade: primary left")
	i.ExpectVersion(t, m.Platform, env, next.Version)
	if logs := m.logs + m.Log(); !strings.Contains(logs, "a backup is read from a secondary") ||
		strings.Contains(logs, "a backup is read from the primary") {
		t.Errorf("no backup was read from a secondary: %s", logs)
	}
	if n := testdrive.Read[int](t, c.Open(t), "SELECT COUNT(*) FROM fruit"); n != 4 {
		t.Errorf("%d rows are left of 4", n)
	}
	world := audit.World{PostgresURL: env["DATABASE_URL"], Keyset: env["ENCRYPTION_KEYSET"], Shared: m.Admin(t),
		Launchers: inspectors, Plans: testdrive.Plans(t), Reported: audit.Reported{
			Instances: []audit.Instance{{ID: i.ID, PlanID: larger, State: audit.Exists}},
			Bindings: []audit.Binding{{InstanceID: i.ID, ID: b.BindingID, State: audit.Exists, Credentials: audit.Credentials{
				Host: c.Host, Port: c.Port, Username: c.Username, Password: c.Password, Database: c.Database,
				CACertificate: c.CACertificate}}}}}
	for _, sentence := range audit.Check(t.Context(), world) {
		t.Errorf("in use: %s", sentence)
	}
	b.Instance = i
	b.Unbind(t).Expect(t, http.StatusOK)
	m.run(t, &i, http.MethodDelete, i.Deletion(i.Path(), testdrive.Async), nil)
	m.expectDeaths(t, "destroy: looked", "destroy: deleted")
	if _, problems := cluster.Inspect(nil, nil); len(problems) > 0 {
		t.Errorf("left: %q", problems)
	}

	m.Kill(t)
	env["LAUNCHER_IMAGES"] = "mysql-8.0=image" // older than groups
	refused := testdrive.Run(t, env, "serve").Expect(t, 1)
	if said := refused.Stdout + refused.Stderr; !strings.Contains(said, "members: 3") {
		t.Errorf("a broker without images that can form groups says: %s", said)
	}
}

// primaryPod returns which member the Service of the only group in a namespace leads to, and the path of its pod.
func primaryPod(t *testing.T, cluster kubernetestest.Inspector) (member, path string) {
	t.Helper()
	at := "/api/v1/namespaces/" + cluster.Namespace
	status, response, err := cluster.Call(t.Context(), http.MethodGet, at+"/services", nil)
	if err != nil || status != http.StatusOK {
		t.Fatalf("Services: %d %s %v", status, response, err)
	}
	var all struct {
		Items []struct {
			Metadata struct {
				Name   string
				Labels map[string]string
			}
			Spec struct{ Selector map[string]string }
		}
	}
	if err := json.Unmarshal(response, &all); err != nil {
		t.Fatal(err)
	}
	const label = "mysql-broker/member"
	for _, service := range all.Items {
		if to := service.Spec.Selector[label]; to != "" && service.Metadata.Labels[label] == "" {
			return to, at + "/pods/" + service.Metadata.Name + "-" + to + "-0"
		}
	}
	t.Fatalf("no Service leads to a primary: %s", response)
	panic("not reached")
}

// withMembers gives the dedicated plans of a broker three members.
func withMembers(t *testing.T, env map[string]string) {
	t.Helper()
	text, err := os.ReadFile(env["CATALOG"])
	if err != nil {
		t.Fatal(err)
	}
	edited := string(text)
	for memory, three := range map[int]int{256: 512, 1024: 640} {
		edited = strings.Replace(edited, fmt.Sprintf("{provisioner: dedicated, async: required, memory_mb: %d,", memory),
			fmt.Sprintf("{provisioner: dedicated, members: 3, async: required, memory_mb: %d,", three), 1)
	}
	if strings.Count(edited, "members: 3") != 2 {
		t.Fatalf("the catalog has other plans: %s", text)
	}
	env["CATALOG"] = filepath.Join(t.TempDir(), "catalog.yml")
	if err := os.WriteFile(env["CATALOG"], []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
}
