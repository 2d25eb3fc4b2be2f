package manifests

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// The namespace of dedicated servers lets no other pods in than restricted ones, which reach nobody. The broker has rights
// in it alone, and none that leads into pods, to other rights, or to everything of a kind.
func TestLauncher(t *testing.T) {
	t.Parallel()
	b := build(t, "launcher")
	assert.True(t, b.namespace.Labels["pod-security.kubernetes.io/enforce"] == "restricted",
		"the namespace has the labels %v", b.namespace.Labels)
	for _, name := range []string{b.serviceAccount.Namespace, b.role.Namespace, b.roleBinding.Namespace,
		b.quota.Namespace, b.network.Namespace, b.roleBinding.Subjects[0].Namespace} {
		assert.True(t, name == b.namespace.Name, "something is in the namespace %q", name)
	}
	assert.True(t, b.roleBinding.RoleRef.Kind == "Role" && b.roleBinding.RoleRef.Name == b.role.Name &&
		b.roleBinding.Subjects[0].Name == b.serviceAccount.Name, "the role binding is %+v", b.roleBinding)
	allowed := []string{"secrets", "persistentvolumeclaims", "services", "statefulsets", "pods", "pods/resize", "events"}
	for _, rule := range b.role.Rules {
		for _, resource := range rule.Resources {
			assert.True(t, slices.Contains(allowed, resource) && !slices.Contains(rule.Verbs, "*"),
				"the broker may %v %s", rule.Verbs, resource)
		}
	}
	if egress := b.network.Spec.Egress; len(b.network.Spec.PolicyTypes) != 2 || len(egress) != 0 {
		t.Errorf("servers may reach %v", egress)
	}
	if token := b.serviceAccount.AutomountServiceAccountToken; token == nil || *token {
		t.Error("pods of the ServiceAccount get its token")
	}
}

// With the component dedicated, the broker's pod has a token, which has the rights of the Role, and the launcher
// kubernetes makes servers in the namespace of the Role.
func TestDedicated(t *testing.T) {
	t.Parallel()
	b, servers := build(t, "mycluster", "dedicated"), build(t, "launcher")
	env := map[string]string{}
	for _, v := range b.broker(t).Env {
		env[v.Name] = v.Value
	}
	assert.True(t, env["LAUNCHER"] == "kubernetes" && env["LAUNCHER_NAMESPACE"] == servers.namespace.Name && env["PORT"] != "",
		"the broker has the environment %v", env)
	spec := b.deployment.Spec.Template.Spec
	if token := spec.AutomountServiceAccountToken; token == nil || !*token {
		t.Error("the broker's pod gets no token")
	}
	text, err := os.ReadFile("../../../deploy/kubernetes/dedicated/rolebinding.yaml")
	require.NoError(t, err)
	var binding rbacv1.RoleBinding
	require.NoError(t, yaml.UnmarshalStrict(text, &binding))
	if binding.Namespace != servers.namespace.Name || binding.RoleRef != servers.roleBinding.RoleRef ||
		len(binding.Subjects) != 1 || binding.Subjects[0].Namespace != b.namespace.Name ||
		binding.Subjects[0].Name != spec.ServiceAccountName || binding.Name == servers.roleBinding.Name {
		t.Errorf("the role binding is %+v", binding)
	}
}
