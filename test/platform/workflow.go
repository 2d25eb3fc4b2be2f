package platform

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"mysql-broker/test/audit"
	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

// Workflow is a kind of operation on instances of a plan.
type Workflow struct {
	Kind string
	Plan Plan
	To   Plan   // of an update
	View bool   // an account of the instance defines a view, and so stays when it is unbound
	Keep bool   // a deprovision keeps the data; a provision gets them back
	From string // what a provision gets its data from: clone or restore; "" for nothing
	Next bool   // a bind asks for a successor of another binding, which expires
}

// What a provision can get its data from: clone, or restore.
const Clone = "clone"

func (f Workflow) String() string {
	name := f.Kind + " " + f.Plan.Name
	if f.View {
		name += " with a view"
	}
	if f.Keep {
		name += ", whose data is kept"
	}
	if f.From != "" {
		name += " by " + f.From
	}
	if f.Next {
		name += " of a successor"
	}
	if f.Moves() {
		name += " to " + f.To.Name
	}
	return name
}

// Launches reports whether the operation is one on a dedicated server of its own.
func (f Workflow) Launches() bool {
	return f.Plan.Dedicated() && f.Kind != Bind && f.Kind != Unbind || f.To.Dedicated()
}

// Moves reports whether the operation moves the data to another server.
func (f Workflow) Moves() bool { return f.Kind == Update && f.Plan.Dedicated() != f.To.Dedicated() }

// Copies reports whether the operation reads the rows of a database and writes them elsewhere.
func (f Workflow) Copies() bool {
	return f.Moves() || f.From != "" || f.Kind == Backup || f.Kind == Restore
}

func Workflows(t testing.TB) []Workflow {
	shared, dedicated := NamedPlan(t, "shared-small"), NamedPlan(t, "dedicated-small")
	return []Workflow{
		{Kind: Provision, Plan: shared},
		{Kind: Update, Plan: shared, To: NamedPlan(t, "shared-large")},
		{Kind: Bind, Plan: shared},
		{Kind: Bind, Plan: shared, Next: true},
		{Kind: Unbind, Plan: shared},
		{Kind: Unbind, Plan: shared, View: true},
		{Kind: Deprovision, Plan: shared, View: true},
		{Kind: Provision, Plan: NamedPlan(t, "shared-async")},
		{Kind: Provision, Plan: dedicated},
		{Kind: Update, Plan: dedicated, To: NamedPlan(t, "dedicated-large")},
		{Kind: Bind, Plan: dedicated},
		{Kind: Unbind, Plan: dedicated},
		{Kind: Deprovision, Plan: dedicated},
		{Kind: Deprovision, Plan: shared, View: true, Keep: true},
		{Kind: Deprovision, Plan: dedicated, Keep: true},
		{Kind: Provision, Plan: shared, View: true, Keep: true},
		{Kind: Provision, Plan: dedicated, Keep: true},
		{Kind: Update, Plan: shared, To: dedicated, View: true},
		{Kind: Update, Plan: dedicated, To: shared},
		{Kind: Provision, Plan: shared, From: Clone, View: true},
		{Kind: Backup, Plan: shared, View: true},
		{Kind: Provision, Plan: shared, From: Restore},
		{Kind: Restore, Plan: shared, View: true},
	}
}

// Target is what an operation works on.
type Target struct {
	Workflow
	Instance audit.Instance
	Binding  audit.Binding
	Version  string         // to which an update upgrades the server
	Deleted  string         // the instance whose data this one is to get
	Source   audit.Instance // the instance that is copied, or whose backup is restored
	Backup   string         // the id of the backup that is restored
	Earlier  string         // the note that is in it
	Before   audit.Binding  // the predecessor of the binding
}

// Prepare makes what the operation needs to be there. host is a dedicated instance that lends itself to bindings.
func (w *World) Prepare(ctx context.Context, f Workflow, host audit.Instance) (x Target, err error) {
	x = Target{Workflow: f, Instance: audit.Instance{ID: uuid.NewString(), PlanID: f.Plan.ID}}
	if f.Kind == Update && f.Plan.Dedicated() && f.To.Dedicated() {
		x.Version = w.Later
	}
	if f.From != "" {
		err := w.makeSource(ctx, &x)
		return x, err
	}
	if f.Kind == Provision && !f.Keep {
		return x, nil
	}
	if f.Plan.Dedicated() && !f.Launches() {
		x.Instance = host
	} else if err := w.Make(f.Plan, f.Keep, &x.Instance); err != nil {
		return x, err
	}
	if f.Kind == Bind {
		x.Binding = audit.Binding{InstanceID: x.Instance.ID, ID: uuid.NewString()}
		if f.Next {
			x.Binding.Role = "read-only" // its successor inherits its parameters
			x.Before, err = w.BindWith(f.Plan, x.Instance.ID, map[string]any{"ttl": "8h", "role": x.Binding.Role})
		}
		return x, err
	}
	if x.Binding, err = w.Bind(f.Plan, x.Instance.ID); err != nil || x.Instance.ID == host.ID {
		return x, err
	}
	x.Instance.Note = uuid.NewString()
	if err := WriteNote(ctx, x.Binding.Credentials, x.Instance.Note); err != nil {
		return x, err
	}
	w.Tell(x.Instance)
	if f.View {
		if err := w.leaveView(ctx, &x); err != nil {
			return x, err
		}
	}
	if f.Kind == Restore {
		err := w.backUpAndChange(ctx, &x)
		return x, err
	}
	if f.Kind != Provision {
		return x, nil
	}
	if err := w.Delete(&x); err != nil {
		return x, err
	}
	x.Deleted = x.Instance.ID
	x.Instance = audit.Instance{ID: uuid.NewString(), PlanID: f.Plan.ID, Note: x.Instance.Note} // which comes back
	return x, nil
}

// WriteNote is audit.Write. On a node of Galera, an account arrives a moment after it was created on another one.
func WriteNote(ctx context.Context, c audit.Credentials, note string) error {
	for deadline := time.Now().Add(limits.Stuck); ; time.Sleep(50 * time.Millisecond) {
		err := audit.Write(ctx, c, note)
		number := testdrive.ErrorNumber(err)
		if number != 1044 && number != 1045 || time.Now().After(deadline) {
			return err
		}
	}
}

// makeSource creates the instance whose data the operation reads.
func (w *World) makeSource(ctx context.Context, x *Target) (err error) {
	of := Target{Workflow: Workflow{Kind: Backup, Plan: x.Plan, View: x.View}}
	of, err = w.Prepare(ctx, of.Workflow, audit.Instance{})
	x.Source, x.Instance.Note = of.Instance, of.Instance.Note
	if err != nil || x.From == Clone {
		return err
	}
	x.Backup, err = w.backUp(ctx, x.Plan, x.Source.ID)
	return err
}

// backUp returns the id of a backup, which may be restored before it is verified: that waits if a server has just failed.
func (w *World) backUp(ctx context.Context, p Plan, id string) (backup string, err error) {
	if _, err := w.Run(p.BackUp(id)); err != nil {
		return "", err
	}
	err = w.Tasks.QueryRow(ctx, "SELECT id FROM backup WHERE instance_id = $1", id).Scan(&backup)
	return backup, err
}

// backUpAndChange takes the backup that a restore in place brings back, and then changes the note.
func (w *World) backUpAndChange(ctx context.Context, x *Target) (err error) {
	if x.Backup, err = w.backUp(ctx, x.Plan, x.Instance.ID); err != nil {
		return err
	}
	x.Earlier, x.Instance.Note = x.Instance.Note, uuid.NewString()
	if err := audit.Change(ctx, x.Binding.Credentials, x.Instance.Note); err != nil {
		return err
	}
	w.Tell(x.Instance)
	return nil
}

// leaveView makes a view. Of an instance that is deleted, its account stays, and the instance has another binding.
func (w *World) leaveView(ctx context.Context, x *Target) (err error) {
	if err := DefineView(ctx, x.Binding.Credentials); err != nil || x.Kind == Unbind {
		return err
	}
	if err := w.Unbind(x.Plan, x.Binding); err != nil {
		return err
	}
	x.Binding, err = w.Bind(x.Plan, x.Instance.ID)
	return err
}

func DefineView(ctx context.Context, c audit.Credentials) error {
	return audit.Execute(ctx, c, "CREATE VIEW notes AS SELECT text FROM note")
}

// Make provisions an instance. Its data is kept when it is deleted, if keep is true.
func (w *World) Make(p Plan, keep bool, i *audit.Instance) error {
	q := p.Provision(i.ID)
	if keep {
		q = p.ProvisionWith(i.ID, map[string]any{})
	}
	if _, err := w.Run(q); err != nil {
		return err
	}
	i.State = audit.Exists
	w.Tell(*i)
	return nil
}

func (w *World) Bind(p Plan, instanceID string) (audit.Binding, error) {
	return w.BindWith(p, instanceID, nil)
}

func (w *World) BindWith(p Plan, instanceID string, parameters map[string]any) (audit.Binding, error) {
	b := audit.Binding{InstanceID: instanceID, ID: uuid.NewString(), State: audit.Exists}
	b.Role, _ = parameters["role"].(string)
	q := p.Bind(instanceID, b.ID)
	if parameters != nil {
		q.Body.(map[string]any)["parameters"] = parameters
	}
	got, err := w.Run(q)
	if err == nil {
		b.Credentials, err = audit.ReadCredentials(got.Body["credentials"])
	}
	w.TellBinding(b)
	return b, err
}

func (w *World) Unbind(p Plan, b audit.Binding) error {
	_, err := w.Run(p.Unbind(b.InstanceID, b.ID))
	b.State = audit.Gone
	w.TellBinding(b)
	return err
}

// Request is what begins the operation.
func (x Target) Request() Request {
	switch x.Kind {
	case Provision:
		if x.Keep {
			return x.Plan.ProvisionWith(x.Instance.ID, map[string]any{"undelete": x.Deleted})
		}
		switch x.From {
		case Clone:
			return x.Plan.Clone(x.Instance.ID, x.Source.ID)
		case Restore:
			return x.Plan.Restore(x.Instance.ID, x.Backup)
		}
		return x.Plan.Provision(x.Instance.ID)
	case Backup:
		return x.Plan.BackUp(x.Instance.ID)
	case Restore:
		return x.Plan.RestoreInPlace(x.Instance.ID, x.Backup)
	case Update:
		q := x.Plan.Update(x.Instance.ID, x.To)
		if x.Version != "" {
			q.Body.(map[string]any)["maintenance_info"] = map[string]any{"version": x.Version}
		}
		return q
	case Bind:
		q := x.Plan.Bind(x.Instance.ID, x.Binding.ID)
		if x.Next {
			q.Body = map[string]any{"predecessor_binding_id": x.Before.ID}
		}
		return q
	case Unbind:
		return x.Plan.Unbind(x.Instance.ID, x.Binding.ID)
	}
	return x.Plan.Deprovision(x.Instance.ID)
}

// Mitigation is what a platform sends instead if it would rather be rid of what it got no answer for, if there is such
// a request. OSB API, "Orphan Mitigation".
func (x Target) Mitigation() (Request, bool) {
	switch x.Kind {
	case Provision:
		return x.Plan.Deprovision(x.Instance.ID), true
	case Bind:
		return x.Plan.Unbind(x.Instance.ID, x.Binding.ID), true
	}
	return Request{}, false
}

// RunAndLearn runs a request, and records what the platform learns from it.
func (w *World) RunAndLearn(x *Target, q Request) error {
	got, err := w.Run(q)
	return w.learn(x, q, got, err)
}

// ConcludeAndLearn is RunAndLearn of a request with that response.
func (w *World) ConcludeAndLearn(x *Target, q Request, r testdrive.Response) error {
	got, err := w.Conclude(q, r)
	return w.learn(x, q, got, err)
}

// learn records what the platform learns from a request, unless it has failed.
func (w *World) learn(x *Target, q Request, got testdrive.Response, err error) error {
	if err != nil {
		return err
	}
	switch q.Kind {
	case Provision:
		x.Instance.State = audit.Exists
		w.Tell(x.Instance)
		if x.From != "" { // the note is read by a binding
			_, err = w.Bind(x.Plan, x.Instance.ID)
		}
	case Restore:
		x.Instance.Note = x.Earlier
		w.Tell(x.Instance)
	case Update:
		x.Instance.PlanID = x.To.ID
		w.Tell(x.Instance)
		err = w.learnMove(x)
	case Bind:
		x.Binding.State = audit.Exists
		x.Binding.Credentials, err = audit.ReadCredentials(got.Body["credentials"])
		w.TellBinding(x.Binding)
		if metadata, _ := got.Body["metadata"].(map[string]any); x.Next && metadata["expires_at"] == nil {
			err = errors.Join(err, fmt.Errorf("the successor does not expire: %s", got.Raw))
		}
	case Unbind:
		x.Binding.State = audit.Gone
		w.TellBinding(x.Binding)
	case Deprovision:
		x.Instance.State = audit.Gone
		w.TellGone(x.Instance.ID)
	}
	return err
}

// learnMove reads the credentials that a binding has after its instance's data was moved.
func (w *World) learnMove(x *Target) error {
	if !x.Moves() {
		return nil
	}
	r, err := w.Send("GET", BindingPath(x.Instance.ID, x.Binding.ID), nil)
	if err != nil {
		return err
	}
	moved, err := audit.ReadCredentials(r.Body["credentials"])
	if err != nil {
		return fmt.Errorf("fetch the binding after the move: %d %s: %w", r.Status, r.Raw, err)
	}
	if moved.Port == x.Binding.Credentials.Port { // it was given up, or has been undone
		return errors.New("the binding has the address from before the move")
	}
	x.Binding.Former, x.Binding.Credentials = x.Binding.Credentials, moved
	w.TellBinding(x.Binding)
	return nil
}

// LearnUpdate asks what has become of an update.
func (w *World) LearnUpdate(x *Target) error {
	for deadline := time.Now().Add(limits.Stuck); ; time.Sleep(w.PollEach) { // it may be being updated
		r, err := w.Send("GET", InstancePath(x.Instance.ID), nil)
		if err != nil {
			return err
		}
		if r.Status == http.StatusOK {
			x.Instance.PlanID = r.String("plan_id")
			w.Tell(x.Instance)
			if x.Instance.PlanID == x.To.ID {
				return w.learnMove(x)
			}
			return nil
		}
		if r.Status != http.StatusUnprocessableEntity || time.Now().After(deadline) {
			return fmt.Errorf("fetch the instance: %d %s", r.Status, r.Raw)
		}
	}
}

// Clear deletes what an operation has left, as a platform does.
func (w *World) Clear(x *Target, host audit.Instance) error {
	if x.Instance.ID == host.ID {
		if x.Binding.State != audit.Exists {
			return nil
		}
		return w.Unbind(x.Plan, x.Binding)
	}
	if x.Source.ID != "" {
		source := Target{Workflow: Workflow{Kind: Deprovision, Plan: x.Plan}, Instance: x.Source}
		if err := w.Delete(&source); err != nil {
			return err
		}
	}
	if x.Instance.State == audit.Gone || x.Instance.State == "" {
		return nil
	}
	return w.Delete(x)
}

func (w *World) Delete(x *Target) error {
	p := x.Plan
	if x.Instance.PlanID == x.To.ID { // an update has succeeded
		p = x.To
	}
	return w.RunAndLearn(x, p.Deprovision(x.Instance.ID))
}
