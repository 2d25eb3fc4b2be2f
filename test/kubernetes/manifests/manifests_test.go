package manifests

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// stopTime is how long the broker takes to end after SIGTERM, at most.
const stopTime = 10 * time.Second

func TestBase(t *testing.T) {
	t.Parallel()
	b := build(t, "base")
	assert.False(t, b.namespace != nil || b.secret != nil || b.monitor != nil, "the base has what is each cluster's own")
	b.expectSound(t)
}

// The example applies to a cluster that knows no types but Kubernetes' own.
func TestExample(t *testing.T) {
	t.Parallel()
	b := build(t, "mycluster")
	b.expectSound(t)
	assert.Nil(t, b.monitor, "only the Prometheus operator knows ServiceMonitor")
	for _, v := range b.deployment.Spec.Template.Spec.Volumes {
		assert.Nil(t, v.Secret, "nobody has made the Secret")
	}
	from := b.broker(t).EnvFrom
	require.Len(t, from, 1)
	assert.Equal(t, b.secret.Name, from[0].SecretRef.Name)
	for _, name := range []string{b.deployment.Namespace, b.service.Namespace, b.secret.Namespace, b.network.Namespace} {
		assert.Equal(t, b.namespace.Name, name, "the namespace of another object")
	}
}

func TestServiceMonitor(t *testing.T) {
	t.Parallel()
	b := build(t, "mycluster", "servicemonitor")
	b.expectSound(t)
	b.expectMonitored(t)
	assert.Empty(t, b.monitor.Spec.Endpoints[0].Scheme, "the broker serves HTTP")
}

func TestHTTPS(t *testing.T) {
	t.Parallel()
	for _, components := range [][]string{{"https"}, {"https", "dedicated"}, {"servicemonitor", "https"}} {
		b := build(t, "mycluster", components...)
		b.expectRestricted(t)
		b.expectProbes(t, corev1.URISchemeHTTPS)
		if b.monitor == nil {
			continue
		}
		b.expectMonitored(t)
		assert.EqualValues(t, "https", b.monitor.Spec.Endpoints[0].Scheme)
		assert.NotNil(t, b.monitor.Spec.Endpoints[0].TLSConfig)
	}
}

func (b built) broker(t *testing.T) corev1.Container {
	containers := b.deployment.Spec.Template.Spec.Containers
	require.Len(t, containers, 1)
	return containers[0]
}

// expectSound checks what no schema says: that the objects belong together, and the broker can do its work.
func (b built) expectSound(t *testing.T) {
	t.Helper()
	b.expectRestricted(t)
	b.expectSelected(t)
	b.expectPorts(t)
	b.expectProbes(t, "")
	spec := b.deployment.Spec
	assert.False(t, *spec.Replicas < 2 || spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 0,
		"an upgrade, or the end of a node, would leave no broker")
	assert.Equal(t, b.serviceAccount.Name, spec.Template.Spec.ServiceAccountName)
	assert.Equal(t, new(false), spec.Template.Spec.AutomountServiceAccountToken)
	needed := stopTime + time.Duration(b.broker(t).Lifecycle.PreStop.Sleep.Seconds)*time.Second
	grace := time.Duration(*spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	assert.GreaterOrEqual(t, grace, needed+5*time.Second, "time to stop")
}

// expectRestricted holds the pod against the strictest standard, by the code that enforces it.
// https://kubernetes.io/docs/concepts/security/pod-security-standards/
func (b built) expectRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks())
	require.NoError(t, err)
	pod := b.deployment.Spec.Template
	for _, result := range evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()},
		&pod.ObjectMeta, &pod.Spec) {
		assert.True(t, result.Allowed, "%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
	}
}

func (b built) expectSelected(t *testing.T) {
	pod := b.deployment.Spec.Template
	selectors := map[string]*metav1.LabelSelector{
		"deployment":            b.deployment.Spec.Selector,
		"service":               {MatchLabels: b.service.Spec.Selector},
		"pod disruption budget": b.budget.Spec.Selector,
		"network policy":        &b.network.Spec.PodSelector,
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		selectors["spread over "+c.TopologyKey] = c.LabelSelector
	}
	for name, s := range selectors {
		selector, err := metav1.LabelSelectorAsSelector(s)
		assert.False(t, err != nil || selector.Empty() || !selector.Matches(labels.Set(pod.Labels)),
			"%s: the selector %v does not select the pods, whose labels are %v: %v", name, s, pod.Labels, err)
	}
}

func (b built) expectPorts(t *testing.T) {
	isPort := func(name string) bool {
		return slices.ContainsFunc(b.broker(t).Ports, func(p corev1.ContainerPort) bool { return p.Name == name })
	}
	for _, p := range b.service.Spec.Ports {
		assert.True(t, isPort(p.TargetPort.StrVal), "the service leads to the port %q", p.TargetPort.StrVal)
	}
	for _, rule := range b.network.Spec.Ingress {
		for _, p := range rule.Ports {
			assert.True(t, isPort(p.Port.StrVal), "the network policy opens the port %q", p.Port.StrVal)
		}
	}
	assert.False(t, len(b.service.Spec.Ports) == 0 || len(b.network.Spec.Ingress) == 0 || len(b.network.Spec.Egress) == 0,
		"nobody can reach the broker, or it nobody")
}

// expectProbes keeps outages of what all replicas depend on from restarting them, and from taking them all out of the
// service: /readyz tells of those.
func (b built) expectProbes(t *testing.T, scheme corev1.URIScheme) {
	broker := b.broker(t)
	for name, p := range map[string]*corev1.Probe{"startup": broker.StartupProbe, "liveness": broker.LivenessProbe,
		"readiness": broker.ReadinessProbe} {
		require.NotNil(t, p, name)
		want := &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("http"), Scheme: scheme}
		assert.Equal(t, want, p.HTTPGet, name)
	}
}

func (b built) expectMonitored(t *testing.T) {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(&b.monitor.Spec.Selector)
	assert.False(t, err != nil || selector.Empty() || !selector.Matches(labels.Set(b.service.Labels)),
		"the monitor's selector does not select the service: %v", err)
	for _, e := range b.monitor.Spec.Endpoints {
		assert.True(t, slices.ContainsFunc(b.service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == e.Port }),
			"the monitor looks for the port %q", e.Port)
	}
	assert.NotEmpty(t, b.monitor.Spec.Endpoints, "the monitor looks at nothing")
	assert.Equal(t, "mysql-broker", b.service.Labels[b.monitor.Spec.JobLabel], "the job")
}
