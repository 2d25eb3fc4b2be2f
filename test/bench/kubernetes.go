package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"

	"mysql-broker/test/audit"
	"mysql-broker/test/kubernetes/cluster"
)

const (
	kubernetesRounds = 5
	kubernetesPoll   = 50 * time.Millisecond
	largerPlan       = "dedicated-large"
)

// What is measured of a server in Kubernetes.
const (
	order   = "order"
	resize  = "resize"
	deleted = "pod deleted"
	remove  = "delete"
)

const kubernetesNote = "Raw: a StatefulSet written by hand with the same image and settings, from the first request to " +
	"the API server; its init container copies the image's data directory. The broker's: from PUT, polls every 50 ms, " +
	"until the operation has succeeded, plus the login and first query of a bound account."

// measureKubernetes compares dedicated servers of the broker in Kubernetes with StatefulSets that are written by hand.
// The node is that of test/kubernetes/with-node, inside of which the bench then runs.
func measureKubernetes(ctx context.Context, b *bench) error {
	dir := os.Getenv(cluster.DirVar)
	if dir == "" {
		const how = "the section kubernetes needs a node: make bench-kubernetes"
		if slices.Contains(b.options.only, "kubernetes") {
			return errors.New(how)
		}
		fmt.Fprintln(os.Stderr, how)
		return nil
	}
	c, machine, err := cluster.Attach(dir)
	if err != nil {
		return err
	}
	defer c.Stop()
	for _, s := range b.servers {
		n := &kubernetesNamespace{api: c, name: "bench-" + s.Flavour, host: machine.Address(), image: cluster.ImageName(s.binary)}
		if err := b.measureKubernetesOn(ctx, s, n); err != nil {
			return fmt.Errorf("%s: %w", s.Flavour, err)
		}
	}
	return nil
}

func (b *bench) measureKubernetesOn(ctx context.Context, s server, n *kubernetesNamespace) (err error) {
	if err := n.make(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.remove(context.WithoutCancel(ctx))) }()
	f := &dedicatedFleet{bench: b, server: s}
	if f.serviceID, f.plan, err = b.plan(dedicatedPlan); err != nil {
		return err
	}
	_, larger, err := b.plan(largerPlan)
	if err != nil {
		return err
	}
	environment, err := b.environment(ctx, s)
	if err != nil {
		return err
	}
	for name, value := range map[string]string{"LAUNCHER": "kubernetes", "LAUNCHER_NAMESPACE": n.name,
		"LAUNCHER_KUBECONFIG": n.api.Kubeconfig, "LAUNCHER_SERVICE": "node-port", "LAUNCHER_NODE_HOST": n.host,
		"LAUNCHER_IMAGES": s.Flavour + "-" + s.binary.Version + "=" + n.image} {
		environment[name] = value
	}
	if f.broker, err = b.startBroker(ctx, environment); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.broker.stop(context.WithoutCancel(ctx))) }()
	raw := &rawStatefulSet{kubernetesNamespace: n, flavour: s.Flavour}
	life := func(ctx context.Context) (figures, error) { return f.live(ctx, n, larger, raw) }
	compared, err := compare(ctx, b.rounds(kubernetesRounds), life, raw.live)
	if err != nil {
		return err
	}
	for _, row := range []Row{
		{What: order, Goal: atMost(1.3), Note: kubernetesNote},
		{What: resize, Note: "256 MiB to 1 GiB of memory, and 1 to 10 GiB of disk. Raw: until the pod and the claim have it; " +
			"its mysqld keeps its settings."},
		{What: deleted, Note: "From the deletion of the pod until another one has answered a query."},
		{What: remove, Note: "Until pod and claim are gone."},
	} {
		figure := row.What
		row.What, row.Flavour, row.Unit = map[string]string{order: dedicatedPlan + ": order → first query",
			resize: "update to " + largerPlan, deleted: "pod deleted → first query", remove: "delete"}[figure]+
			", Kubernetes", s.Flavour, "ms"
		b.report.add(compared.row(figure, row))
	}
	memory, err := residentMB(f.broker.pid)
	if err != nil {
		return err
	}
	b.report.add(Row{What: "memory of the broker after that, Kubernetes", Flavour: s.Flavour, Unit: "MB",
		Goal: &Goal{AtMost: 32, Unit: "MB"}, Broker: spreadOf([]float64{memory})})
	return nil
}

// live creates an instance, resizes it, deletes its pod, and deletes it. It shows raw the Secret of its server.
func (f *dedicatedFleet) live(ctx context.Context, n *kubernetesNamespace, larger string,
	raw *rawStatefulSet) (of figures, err error) {
	c, err := newClient(ctx, f.broker.addr)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	path := "/v2/service_instances/" + uuid.NewString()
	since := time.Now()
	if err := f.provision(ctx, c, path, kubernetesPoll); err != nil {
		return nil, err
	}
	launched := time.Since(since)
	status, answer, err := c.do("PUT", path+"/service_bindings/"+uuid.NewString(),
		fmt.Sprintf(`{"service_id":%q,"plan_id":%q}`, f.serviceID, f.plan))
	if err != nil || status != http.StatusCreated {
		return nil, errors.Join(err, fmt.Errorf("bind: status %d: %s", status, answer))
	}
	var binding struct{ Credentials audit.Credentials }
	if err := json.Unmarshal(answer, &binding); err != nil {
		return nil, err
	}
	since = time.Now()
	if err := firstQuery(ctx, binding.Credentials); err != nil {
		return nil, err
	}
	of = figures{order: milliseconds(launched + time.Since(since))}
	if raw.secret == nil {
		if raw.secret, err = n.serverSecret(ctx); err != nil {
			return nil, err
		}
	}
	since = time.Now()
	if err := c.operate(ctx, "PATCH", path+"?accepts_incomplete=true", fmt.Sprintf(`{"service_id":%q,"plan_id":%q}`,
		f.serviceID, larger), kubernetesPoll); err != nil {
		return nil, err
	}
	of[resize] = milliseconds(time.Since(since))
	if of[deleted], err = n.replacePod(ctx, "mysql-broker/server", binding.Credentials); err != nil {
		return nil, err
	}
	since = time.Now()
	if err := c.operate(ctx, "DELETE", fmt.Sprintf("%s?accepts_incomplete=true&service_id=%s&plan_id=%s", path,
		f.serviceID, larger), "", kubernetesPoll); err != nil {
		return nil, err
	}
	of[remove] = milliseconds(time.Since(since))
	return of, nil
}
