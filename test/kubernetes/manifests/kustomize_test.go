// Package manifests tests deploy/kubernetes without a cluster. It is a module of its own, so that Kubernetes' modules are
// none of the broker's.
package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// built is what kubectl would apply, one of each kind.
type built struct {
	namespace      *corev1.Namespace
	serviceAccount *corev1.ServiceAccount
	secret         *corev1.Secret
	deployment     *appsv1.Deployment
	service        *corev1.Service
	budget         *policyv1.PodDisruptionBudget
	network        *networkingv1.NetworkPolicy
	monitor        *monitoringv1.ServiceMonitor
	role           *rbacv1.Role
	roleBinding    *rbacv1.RoleBinding
	quota          *corev1.ResourceQuota
}

// build runs kustomize on a folder of deploy/kubernetes, and decodes what comes out with the types of Kubernetes: a field
// that they do not know, or one of another type, is an error. The components are uncommented.
func build(t *testing.T, folder string, components ...string) built {
	top := t.TempDir()
	dir := filepath.Join(top, "deploy/kubernetes")
	for _, own := range []string{"base", "example", "servicemonitor", "https", "launcher", "dedicated"} { // and no folder that an operator made
		require.NoError(t, os.CopyFS(filepath.Join(dir, own), os.DirFS("../../../deploy/kubernetes/"+own)))
	}
	copyExample(t, top)
	uncomment(t, filepath.Join(dir, folder, "kustomization.yaml"), components)
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(),
		filepath.Join(dir, folder))
	require.NoError(t, err)
	var b built
	left := map[string]any{
		"v1 Namespace":                             &b.namespace,
		"v1 ServiceAccount":                        &b.serviceAccount,
		"v1 Secret":                                &b.secret,
		"apps/v1 Deployment":                       &b.deployment,
		"v1 Service":                               &b.service,
		"policy/v1 PodDisruptionBudget":            &b.budget,
		"networking.k8s.io/v1 NetworkPolicy":       &b.network,
		"rbac.authorization.k8s.io/v1 Role":        &b.role,
		"rbac.authorization.k8s.io/v1 RoleBinding": &b.roleBinding,
		"v1 ResourceQuota":                         &b.quota,
		"monitoring.coreos.com/v1 ServiceMonitor":  &b.monitor,
	}
	for _, r := range resources.Resources() {
		kind := r.GetApiVersion() + " " + r.GetKind()
		require.Contains(t, left, kind, "it is not expected, or there are two")
		text, err := r.AsYAML()
		require.NoError(t, err)
		require.NoError(t, yaml.UnmarshalStrict(text, left[kind]), "%s\n%s", r.CurId(), text)
		delete(left, kind)
	}
	return b
}

var toCopy = regexp.MustCompile(`(?m)^(?:cp|cd) .*$`)

// copyExample makes the folder mycluster by the commands that the README gives to operators.
func copyExample(t *testing.T, top string) {
	text, err := os.ReadFile("../../../deploy/kubernetes/README.md")
	require.NoError(t, err)
	copying := exec.Command("sh", "-ec", strings.Join(toCopy.FindAllString(string(text), -1), "\n"))
	copying.Dir = top
	out, err := copying.CombinedOutput()
	require.NoError(t, err, "%s\n%s", copying, out)
}

func uncomment(t *testing.T, path string, components []string) {
	if len(components) == 0 {
		return
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := []string{"components:"}
	for _, c := range components {
		lines = append(lines, "- ../"+c)
	}
	for _, line := range lines {
		before := "\n# " + line
		require.True(t, strings.Contains(string(text), before), "%s lacks the comment %q", path, line)
		text = []byte(strings.Replace(string(text), before, "\n"+line, 1))
	}
	require.NoError(t, os.WriteFile(path, text, 0o600))
}
