package kubernetes_test

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/provisioner/launcher/kubernetes/api"
	"mysql-broker/test/testdrive"
)

func configure(variables map[string]string) (kubernetes.Config, error) {
	env := launcher.NewEnvironment(kubernetes.Kind(), "", func(name string) string { return variables[name] })
	c := kubernetes.Kind().Configure(env).(kubernetes.Config)
	return c, env.Err()
}

var outside = map[string]string{
	"LAUNCHER_NAMESPACE": "servers",
	"LAUNCHER_IMAGES":    "mysql-9.7=mysql@sha256:1, mariadb-11.8=registry:5000/mariadb@sha256:2",
	"LAUNCHER_API":       "https://kubernetes.example.com:6443",
	"LAUNCHER_API_CA":    "CA",
	"LAUNCHER_API_TOKEN": "t0ken",
	"LAUNCHER_SERVICE":   "node-port",
	"LAUNCHER_NODE_HOST": "nodes.example.com",
}

func TestConfigure(t *testing.T) {
	t.Parallel()
	c, err := configure(outside)
	require.NoError(t, err)
	images := []kubernetes.Image{{Flavour: "mysql", Version: "9.7", Name: "mysql@sha256:1"},
		{Flavour: "mariadb", Version: "11.8", Name: "registry:5000/mariadb@sha256:2"}}
	assert.EqualExportedValues(t, kubernetes.Config{Namespace: "servers", Images: images, Service: kubernetes.NodePort,
		Host: "nodes.example.com", User: 999, PlaceTimeout: 5 * time.Minute, LaunchTimeout: 10 * time.Minute,
		Credentials: api.Credentials{URL: outside["LAUNCHER_API"], Token: "t0ken", CA: []byte("CA")}}, c)
	inside, err := configure(map[string]string{"LAUNCHER_NAMESPACE": "servers", "LAUNCHER_IMAGES": "mysql-9.7=mysql"})
	assert.True(t, err == nil && inside.Credentials.InCluster && inside.Service == kubernetes.InCluster,
		"in a pod: %+v, %v", inside, err)
	assert.NoError(t, c.Beside(inside), "namespaces of one name in two clusters")
	assert.ErrorContains(t, c.Beside(c), "LAUNCHER_NAMESPACE", "one namespace for two launchers")
}

func TestConfigureWrong(t *testing.T) {
	t.Parallel()
	withoutCA := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(withoutCA, []byte(`current-context: one
clusters: [{name: here, cluster: {server: "https://here.example.com", certificate-authority: /nowhere}}]
users: [{name: broker, user: {token: t0ken}}]
contexts: [{name: one, context: {cluster: here, user: broker}}]
`), 0o600))
	for _, setting := range []string{
		"LAUNCHER_NAMESPACE=Servers",
		"LAUNCHER_IMAGES=postgres-17=postgres",
		"LAUNCHER_IMAGES=",
		"LAUNCHER_API=http://kubernetes.example.com",
		"LAUNCHER_API_TOKEN=",
		"LAUNCHER_KUBECONFIG=/nowhere",
		"LAUNCHER_KUBECONFIG=" + withoutCA,
		"LAUNCHER_SERVICE=ingress",
		"LAUNCHER_NODE_HOST=",
		"LAUNCHER_USER=mysql",
		"LAUNCHER_NODE_TIMEOUT=-1s",
		"LAUNCHER_START_TIMEOUT=soon",
	} {
		variables := maps.Clone(outside)
		variable, value, _ := strings.Cut(setting, "=")
		variables[variable] = value
		_, err := configure(variables)
		assert.False(t, err == nil || !strings.Contains(err.Error(), variable+" ") || strings.Contains(err.Error(), "t0ken"),
			"%s: %v", setting, err)
	}
}

// A broker that supervises says at the start which rights it lacks. So does the error of a launch that needs them.
func TestRights(t *testing.T) {
	t.Parallel()
	p := newObjects(t)
	p.cfg.Supervise = true
	const lacks = "the broker lacks rights in the namespace"
	may := func(verbs string, resources ...string) any {
		return map[string]any{"apiGroups": []string{""}, "resources": resources, "verbs": strings.Fields(verbs)}
	}
	p.merge(t, "/apis/rbac.authorization.k8s.io/v1/namespaces/"+p.Name+"/roles/mysql-broker",
		map[string]any{"rules": []any{may("get list create patch delete", "secrets"),
			may("get create patch", "persistentvolumeclaims", "services"), may("get list watch", "pods")}})
	l := p.open(t)
	const missing = "it may not delete persistentvolumeclaims, create statefulsets, patch statefulsets, delete pods, patch pods/resize, list events;"
	testdrive.Eventually(t, "the missing rights in the log", func() bool {
		return strings.Contains(p.log.String(), lacks) && strings.Contains(p.log.String(), missing)
	})
	err := answers(t, launching(l, newSpec()), launcher.GiveUp, "The servers of this plan cannot be run here just now.")
	assert.ErrorContains(t, err, `cannot patch resource "statefulsets"`)
	missed, err := newObjects(t).open(t).(launcher.Checker).MissingRights(t.Context())
	assert.True(t, err == nil && missed == "", "with the rights of deploy/kubernetes/launcher: %q, %v", missed, err)
}

// The advice names images without a digest.
func TestAdvice(t *testing.T) {
	t.Parallel()
	cfg := apiServer(t, func(http.ResponseWriter, *http.Request) {})
	advice := open(t, cfg).Advice()
	assert.True(t, strings.Contains(advice, "LAUNCHER_IMAGES") && strings.Contains(advice, "mysql:9.7"),
		"a tag alone: %q", advice)
	cfg.Images[0].Name = "mysql:9.7@sha256:" + strings.Repeat("0", 64)
	assert.Empty(t, open(t, cfg).Advice(), "a digest")
}
