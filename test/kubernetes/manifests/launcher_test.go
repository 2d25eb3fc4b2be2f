package manifests

import (
	"slices"
	"testing"
)

// The namespace of dedicated servers lets no other pods in than restricted ones, which reach nobody. The broker has rights
// in it alone, and none that leads into pods, to other rights, or to everything of a kind.
func TestLauncher(t *testing.T) {
	t.Parallel()
	b := build(t, "launcher")
	if b.namespace.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("the namespace has the labels %v", b.namespace.Labels)
	}
	for _, name := range []string{b.serviceAccount.Namespace, b.role.Namespace, b.roleBinding.Namespace,
		b.quota.Namespace, b.network.Namespace, b.roleBinding.Subjects[0].Namespace} {
		if name != b.namespace.Name {
			t.Errorf("something is in the namespace %q", name)
		}
	}
	if b.roleBinding.RoleRef.Kind != "Role" || b.roleBinding.RoleRef.Name != b.role.Name ||
		b.roleBinding.Subjects[0].Name != b.serviceAccount.Name {
		t.Errorf("the role binding is %+v", b.roleBinding)
	}
	allowed := []string{"secrets", "persistentvolumeclaims", "services", "statefulsets", "pods", "pods/resize", "events"}
	for _, rule := range b.role.Rules {
		for _, resource := range rule.Resources {
			if !slices.Contains(allowed, resource) || slices.Contains(rule.Verbs, "*") {
				t.Errorf("the broker may %v %s", rule.Verbs, resource)
			}
		}
	}
	if egress := b.network.Spec.Egress; len(b.network.Spec.PolicyTypes) != 2 || len(egress) != 0 {
		t.Errorf("servers may reach %v", egress)
	}
	if token := b.serviceAccount.AutomountServiceAccountToken; token == nil || *token {
		t.Error("pods of the ServiceAccount get its token")
	}
}
