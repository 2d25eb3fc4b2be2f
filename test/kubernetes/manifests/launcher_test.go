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
	assert.Equal(t, "restricted", b.namespace.Labels["pod-security.kubernetes.io/enforce"])
	for _, name := range []string{b.serviceAccount.Namespace, b.role.Namespace, b.roleBinding.Namespace,
		b.quota.Namespace, b.network.Namespace, b.roleBinding.Subjects[0].Namespace} {
		assert.Equal(t, b.namespace.Name, name, "the namespace of another object")
	}
	assert.Equal(t, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: b.role.Name}, b.roleBinding.RoleRef)
	assert.Equal(t, b.serviceAccount.Name, b.roleBinding.Subjects[0].Name)
	allowed := []string{"secrets", "persistentvolumeclaims", "services", "statefulsets", "pods", "pods/resize", "events"}
	for _, rule := range b.role.Rules {
		for _, resource := range rule.Resources {
			assert.True(t, slices.Contains(allowed, resource) && !slices.Contains(rule.Verbs, "*"),
				"the broker may %v %s", rule.Verbs, resource)
		}
	}
	assert.Len(t, b.network.Spec.PolicyTypes, 2)
	assert.Empty(t, b.network.Spec.Egress, "whom servers may reach")
	assert.Equal(t, new(false), b.serviceAccount.AutomountServiceAccountToken)
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
	assert.Equal(t, new(true), spec.AutomountServiceAccountToken)
	text, err := os.ReadFile("../../../deploy/kubernetes/dedicated/rolebinding.yaml")
	require.NoError(t, err)
	var binding rbacv1.RoleBinding
	require.NoError(t, yaml.UnmarshalStrict(text, &binding))
	assert.Equal(t, servers.namespace.Name, binding.Namespace)
	assert.Equal(t, servers.roleBinding.RoleRef, binding.RoleRef)
	assert.Equal(t, []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: b.namespace.Name, Name: spec.ServiceAccountName}},
		binding.Subjects)
	assert.NotEqual(t, servers.roleBinding.Name, binding.Name)
}
