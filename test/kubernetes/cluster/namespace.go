package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
)

// Namespace is one for the servers of a broker.
type Namespace struct {
	Name  string
	Token string // of a ServiceAccount that has the rights of deploy/kubernetes/launcher and no others
	c     *Cluster
}

// NewNamespace makes a namespace whose pods must be restricted, with a ServiceAccount for a broker. It is removed when
// the test has ended.
func (c *Cluster) NewNamespace(t testing.TB) Namespace {
	n := Namespace{Name: "test-" + strings.ToLower(rand.Text()), c: c}
	n.Do(t, http.MethodPost, "/api/v1/namespaces", map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": n.Name,
			"labels": map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}, nil)
	t.Cleanup(func() { n.remove(t) })
	text, err := os.ReadFile(filepath.Join(root(t), "deploy/kubernetes/launcher/role.yaml"))
	require.NoError(t, err)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var object map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(document), &object))
		group := "/apis/rbac.authorization.k8s.io/v1"
		if object["apiVersion"] == "v1" {
			group = "/api/v1"
		}
		n.Do(t, http.MethodPost, group+"/namespaces/"+n.Name+"/"+strings.ToLower(object["kind"].(string))+"s", object, nil)
	}
	// The API server learns of a new Role by a watch.
	review := map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
		"spec": map[string]any{"user": "system:serviceaccount:" + n.Name + ":mysql-broker", "resourceAttributes": map[string]string{
			"namespace": n.Name, "verb": "get", "resource": "secrets"}}}
	granted := func() bool {
		var answer struct{ Status struct{ Allowed bool } }
		n.Do(t, http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", review, &answer)
		return answer.Status.Allowed
	}
	for deadline := time.Now().Add(limits.Stuck); !granted(); time.Sleep(20 * time.Millisecond) {
		require.False(t, time.Now().After(deadline), "the Role of the namespace %s is not in force", n.Name)
	}
	var request struct{ Status struct{ Token string } }
	n.Do(t, http.MethodPost, n.Path("serviceaccounts/mysql-broker/token"), map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{}}, &request)
	n.Token = request.Status.Token
	return n
}

// Path is that of objects of the core API in the namespace.
func (n Namespace) Path(kind string) string { return "/api/v1/namespaces/" + n.Name + "/" + kind }

// Do calls the API server as an administrator of the cluster, and fails the test if the response is an error.
func (n Namespace) Do(t testing.TB, method, path string, body, into any) {
	ctx, cancel := context.WithTimeout(context.Background(), limits.Stuck) // t's ends before it is cleaned up
	defer cancel()
	status, answer, err := n.c.Call(ctx, method, path, body)
	require.True(t, err == nil && status < 300, "%s %s: %d %s %v", method, path, status, answer, err)
	if into == nil {
		return
	}
	require.NoError(t, json.Unmarshal(answer, into))
}

// remove deletes the namespace, and returns when it has no pod.
func (n Namespace) remove(t testing.TB) {
	// First, as their controller would try again and again to create pods in a namespace that is being deleted.
	n.Do(t, http.MethodDelete, "/apis/apps/v1/namespaces/"+n.Name+"/statefulsets", nil, nil)
	n.Do(t, http.MethodDelete, "/api/v1/namespaces/"+n.Name, nil, nil)
	for deadline := time.Now().Add(limits.Stuck); ; time.Sleep(250 * time.Millisecond) {
		var there struct{ Items []any }
		n.Do(t, http.MethodGet, n.Path("pods"), nil, &there)
		if len(there.Items) == 0 {
			return
		}
		require.False(t, time.Now().After(deadline), "pods of the namespace %s have not ended", n.Name)
	}
}

// root is the top folder of the project, which a test runs below.
func root(t testing.TB) string {
	module, err := output(t.Context(), "go", "env", "GOMOD")
	require.NoError(t, err)
	return filepath.Dir(string(module))
}
