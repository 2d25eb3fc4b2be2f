package ha

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"mysql-broker/test/audit"
	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

// platform sends requests to several brokers, and repeats those that are answered with 5xx.
type platform struct {
	brokers      []*testdrive.Broker
	serviceID    string
	small, large string // plans
	turn, done   atomic.Int64

	mu       sync.Mutex
	reported audit.Reported
	refused  []time.Time     // when requests were answered with 503
	worst    time.Duration   // of a response
	other    map[string]bool // responses of 5xx that are not 503
}

func newPlatform(t *testing.T, brokers ...*testdrive.Broker) *platform {
	t.Helper()
	p := &platform{brokers: brokers, other: map[string]bool{}}
	p.serviceID, p.small = testdrive.Plan(t, "shared-small")
	_, p.large = testdrive.Plan(t, "shared-large")
	return p
}

// send sends a request until the response is final. It fails if that is not of the class 2xx, or 410.
func (p *platform) send(method, path string, body any) (testdrive.Response, error) {
	r, err := testdrive.Insist(func() (testdrive.Response, error) {
		broker := p.brokers[int(p.turn.Add(1))%len(p.brokers)]
		began := time.Now()
		r, err := broker.Send(method, path, body, nil)
		p.note(r, time.Since(began))
		return r, err
	})
	if err == nil && r.Status >= 300 && r.Status != http.StatusGone {
		err = fmt.Errorf("%d %s", r.Status, r.Raw)
	}
	if err != nil {
		return r, fmt.Errorf("%s %s: %w", method, path, err)
	}
	p.done.Add(1)
	return r, nil
}

func (p *platform) note(r testdrive.Response, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.worst = max(p.worst, took)
	switch {
	case r.Status == http.StatusServiceUnavailable:
		p.refused = append(p.refused, time.Now())
	case r.Status >= 500:
		p.other[r.Raw] = true
	}
}

func (p *platform) provision(id string) error {
	_, err := p.send("PUT", "/v2/service_instances/"+id, p.asked())
	p.tell(audit.Instance{ID: id, PlanID: p.small, State: audit.Exists})
	return err
}

// asked is the body of a request for an instance.
func (p *platform) asked() map[string]any {
	return map[string]any{"service_id": p.serviceID, "plan_id": p.small, "organization_guid": "organization",
		"space_guid": "space"}
}

func (p *platform) update(id string) error {
	_, err := p.send("PATCH", "/v2/service_instances/"+id,
		map[string]any{"service_id": p.serviceID, "plan_id": p.large})
	p.change(id, func(i *audit.Instance) { i.PlanID = p.large })
	return err
}

func (p *platform) bind(instance, id string) (audit.Credentials, error) {
	r, err := p.send("PUT", bindingPath(instance, id), map[string]any{"service_id": p.serviceID, "plan_id": p.small})
	if err != nil {
		return audit.Credentials{}, err
	}
	c, err := audit.ReadCredentials(r.Body["credentials"])
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reported.Bindings = append(p.reported.Bindings,
		audit.Binding{InstanceID: instance, ID: id, State: audit.Exists, Credentials: c})
	return c, err
}

func (p *platform) unbind(instance, id string) error {
	_, err := p.send("DELETE", bindingPath(instance, id)+p.query(p.small), nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range p.reported.Bindings {
		if p.reported.Bindings[n].ID == id {
			p.reported.Bindings[n].State = audit.Gone
		}
	}
	return err
}

func (p *platform) deprovision(id, plan string) error {
	_, err := p.send("DELETE", "/v2/service_instances/"+id+p.query(plan), nil)
	p.change(id, func(i *audit.Instance) { i.State = audit.Gone })
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range p.reported.Bindings {
		if p.reported.Bindings[n].InstanceID == id {
			p.reported.Bindings[n].State = audit.Gone
		}
	}
	return err
}

func (p *platform) query(plan string) string {
	return "?service_id=" + p.serviceID + "&plan_id=" + plan
}

func bindingPath(instance, id string) string {
	return "/v2/service_instances/" + instance + "/service_bindings/" + id
}

func (p *platform) tell(i audit.Instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reported.Instances = append(p.reported.Instances, i)
}

func (p *platform) change(id string, fn func(*audit.Instance)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := slices.IndexFunc(p.reported.Instances, func(i audit.Instance) bool { return i.ID == id })
	fn(&p.reported.Instances[n])
}

// cycle creates an instance with two bindings, uses one, ends the other, and changes the plan. It deletes every other
// instance.
func (p *platform) cycle(ctx context.Context, n int) error {
	instance, kept, ended, note := uuid.NewString(), uuid.NewString(), uuid.NewString(), uuid.NewString()
	if err := p.provision(instance); err != nil {
		return err
	}
	c, err := p.bind(instance, kept)
	if err != nil {
		return err
	}
	if err := persist(ctx, func() error {
		limited, cancel := context.WithTimeout(ctx, failoverTime)
		defer cancel()
		return write(limited, c, note)
	}); err != nil {
		return fmt.Errorf("use the instance: %w", err)
	}
	p.change(instance, func(i *audit.Instance) { i.Note = note })
	if _, err := p.bind(instance, ended); err != nil {
		return err
	}
	if err := p.update(instance); err != nil {
		return err
	}
	if err := p.unbind(instance, ended); err != nil {
		return err
	}
	if n%2 == 1 {
		return nil
	}
	return p.deprovision(instance, p.large)
}

// write does what audit.Write does, but can be repeated, and its table has a primary key, as clusters want.
func write(ctx context.Context, c audit.Credentials, note string) error {
	db, err := c.Open()
	if err != nil {
		return err
	}
	defer db.Close()
	for _, statement := range []string{"CREATE TABLE IF NOT EXISTS note (text varchar(100) PRIMARY KEY)",
		"REPLACE INTO note VALUES ('" + note + "')"} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// persist repeats what an application does while its server fails over.
func persist(ctx context.Context, fn func() error) error {
	for deadline := time.Now().Add(limits.Stuck); ; {
		err := fn()
		if err == nil || time.Now().After(deadline) || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond) // as applications try again
	}
}

// load runs cycles until end is called, which returns when all have ended.
func (p *platform) load(t *testing.T, clients int) (end func()) {
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := p.cycle(context.Background(), n); err != nil {
					t.Errorf("an operation under load: %v", err)
					return
				}
			}
		})
	}
	return func() {
		close(stop)
		all.Wait()
	}
}

// awaitDone waits until more requests have succeeded.
func (p *platform) awaitDone(t *testing.T, more int64) {
	t.Helper()
	want := p.done.Load() + more
	testdrive.Eventually(t, limits.Stuck, fmt.Sprintf("%d more requests", more), func() bool {
		return p.done.Load() >= want || t.Failed()
	})
}

// outage is how long after since requests were refused: 0 if none was. It forgets what was refused.
func (p *platform) outage(since time.Time) (last time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.refused {
		last = max(last, at.Sub(since))
	}
	p.refused = nil
	return last
}

// expectOnly503 fails the test if a response was another 5xx.
func (p *platform) expectOnly503(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for raw := range p.other {
		t.Errorf("a response of 5xx that is not 503: %s", raw)
	}
}

// audit compares what the platform was told with what there is.
func (p *platform) audit(ctx context.Context, w audit.World) error {
	p.mu.Lock()
	w.Reported = p.reported
	p.mu.Unlock()
	var errs []error
	for _, sentence := range audit.Check(ctx, w) {
		errs = append(errs, errors.New(sentence))
	}
	return errors.Join(errs...)
}

// clear deletes all instances.
func (p *platform) clear(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	all := slices.Clone(p.reported.Instances)
	p.mu.Unlock()
	for _, i := range all {
		if i.State != audit.Exists {
			continue
		}
		assert.NoError(t, p.deprovision(i.ID, i.PlanID))
	}
}
