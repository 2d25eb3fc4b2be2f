package kubernetes_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/test/testdrive"
)

// A broker that supervises says at the start which rights it lacks. So does the error of a launch that needs them.
func TestRights(t *testing.T) {
	t.Parallel()
	p := newObjects(t)
	p.cfg.Supervise = true
	const lacks = "the broker lacks rights in the namespace"
	p.Do(t, http.MethodPatch, "/apis/rbac.authorization.k8s.io/v1/namespaces/"+p.Name+"/roles/mysql-broker",
		map[string]any{"rules": []any{
			map[string]any{"apiGroups": []string{""}, "resources": []string{"secrets"},
				"verbs": []string{"get", "list", "create", "patch", "delete"}},
			map[string]any{"apiGroups": []string{""}, "resources": []string{"persistentvolumeclaims", "services"},
				"verbs": []string{"get", "create", "patch"}},
			map[string]any{"apiGroups": []string{""}, "resources": []string{"pods"}, "verbs": []string{"get", "list", "watch"}},
		}}, nil)
	l := p.open(t)
	const missing = "it may not delete persistentvolumeclaims, create statefulsets, patch statefulsets, delete pods, patch pods/resize, list events;"
	testdrive.Eventually(t, "the missing rights in the log", func() bool {
		return strings.Contains(p.log.String(), lacks) && strings.Contains(p.log.String(), missing)
	})
	_, err := l.Launch(t.Context(), newSpec(), func(string) {})
	e, known := errors.AsType[*launcher.Error](err)
	assert.True(t, known && e.Action == launcher.GiveUp &&
		strings.Contains(err.Error(), `cannot patch resource "statefulsets"`) &&
		!strings.Contains(e.Sentence, "statefulsets"), "launch without the right: %v", err)
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
