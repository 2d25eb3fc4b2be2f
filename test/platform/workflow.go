package chaos

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"

	"mysql-broker/test/audit"
	"mysql-broker/test/testdrive"
)

// workflow is a kind of operation on instances of a plan.
type workflow struct {
	kind string
	plan plan
	to   plan   // of an update
	view bool   // an account of the instance defines a view, and so stays when it is unbound
	keep bool   // a deprovision keeps the data; a provision gets them back
	from string // what a provision gets its data from: clone or restore; "" for nothing
	next bool   // a bind asks for a successor of another binding, which expires
}

// What a provision can get its data from: clone, or restore.
const clone = "clone"

func (f workflow) String() string {
	name := f.kind + " " + f.plan.name
	if f.view {
		name += " with a view"
	}
	if f.keep {
		name += ", whose data are kept"
	}
	if f.from != "" {
		name += " by " + f.from
	}
	if f.next {
		name += " of a successor"
	}
	if f.moves() {
		name += " to " + f.to.name
	}
	return name
}

// launches reports whether the operation is one on a dedicated server of its own.
func (f workflow) launches() bool {
	return f.plan.dedicated() && f.kind != bind && f.kind != unbind || f.to.dedicated()
}

// moves reports whether the operation moves the data to another server.
func (f workflow) moves() bool { return f.kind == update && f.plan.dedicated() != f.to.dedicated() }

// copies reports whether the operation reads the rows of a database and writes them elsewhere.
func (f workflow) copies() bool {
	return f.moves() || f.from != "" || f.kind == backup || f.kind == restore
}

// workflows are all that there are.
func workflows(t testing.TB) []workflow {
	shared, dedicated := planNamed(t, "shared-small"), planNamed(t, "dedicated-small")
	return []workflow{
		{kind: provision, plan: shared},
		{kind: update, plan: shared, to: planNamed(t, "shared-large")},
		{kind: bind, plan: shared},
		{kind: bind, plan: shared, next: true},
		{kind: unbind, plan: shared},
		{kind: unbind, plan: shared, view: true},
		{kind: deprovision, plan: shared, view: true},
		{kind: provision, plan: planNamed(t, "shared-async")},
		{kind: provision, plan: dedicated},
		{kind: update, plan: dedicated, to: planNamed(t, "dedicated-large")},
		{kind: bind, plan: dedicated},
		{kind: unbind, plan: dedicated},
		{kind: deprovision, plan: dedicated},
		{kind: deprovision, plan: shared, view: true, keep: true},
		{kind: deprovision, plan: dedicated, keep: true},
		{kind: provision, plan: shared, view: true, keep: true},
		{kind: provision, plan: dedicated, keep: true},
		{kind: update, plan: shared, to: dedicated, view: true},
		{kind: update, plan: dedicated, to: shared},
		{kind: provision, plan: shared, from: clone, view: true},
		{kind: backup, plan: shared, view: true},
		{kind: provision, plan: shared, from: restore},
		{kind: restore, plan: shared, view: true},
	}
}

// retaining is the environment of brokers for these workflows: they keep the data of deleted instances, and backups.
func retaining(t testing.TB) map[string]string {
	return map[string]string{"CATALOG": testdrive.RetainingCatalog(t, "shared-small", "dedicated-small"),
		"BACKUP_STORE": "file://" + t.TempDir()}
}

// target is what an operation works on.
type target struct {
	workflow
	instance audit.Instance
	binding  audit.Binding
	version  string         // to which an update upgrades the server
	deleted  string         // the instance whose data this one is to get
	source   audit.Instance // the instance that is copied, or whose backup is restored
	backup   string         // the id of the backup that a restore in place reads
	earlier  string         // the note that is in it
	before   audit.Binding  // the predecessor of the binding
}

// prepare makes what the operation needs to be there. host is a dedicated instance that lends itself to bindings.
func (w *world) prepare(ctx context.Context, f workflow, host audit.Instance) (target, error) {
	x := target{workflow: f, instance: audit.Instance{ID: uuid.NewString(), PlanID: f.plan.id}}
	if f.kind == update && f.plan.dedicated() && f.to.dedicated() {
		x.version = w.later
	}
	if f.from != "" {
		err := w.makeSource(ctx, &x)
		return x, err
	}
	if f.kind == provision && !f.keep {
		return x, nil
	}
	if f.plan.dedicated() && !f.launches() {
		x.instance = host
	} else if err := w.make(f.plan, f.keep, &x.instance); err != nil {
		return x, err
	}
	if f.kind == bind {
		x.binding = audit.Binding{InstanceID: x.instance.ID, ID: uuid.NewString()}
		if f.next {
			return x, w.makePredecessor(&x)
		}
		return x, nil
	}
	var err error
	if x.binding, err = w.bind(f.plan, x.instance.ID); err != nil || x.instance.ID == host.ID {
		return x, err
	}
	x.instance.Note = uuid.NewString()
	if err := writeNote(ctx, x.binding.Credentials, x.instance.Note); err != nil {
		return x, err
	}
	w.tell(x.instance)
	if f.view {
		if err := w.leaveView(ctx, &x); err != nil {
			return x, err
		}
	}
	if f.kind == restore {
		err := w.backUpAndChange(ctx, &x)
		return x, err
	}
	if f.kind != provision {
		return x, nil
	}
	if err := w.delete(&x); err != nil {
		return x, err
	}
	x.deleted = x.instance.ID
	x.instance = audit.Instance{ID: uuid.NewString(), PlanID: f.plan.id, Note: x.instance.Note} // which comes back
	return x, nil
}

// writeNote is audit.Write. On a node of Galera, an account arrives a moment after it was created on another one.
func writeNote(ctx context.Context, c audit.Credentials, note string) error {
	for deadline := time.Now().Add(testdrive.Patience); ; time.Sleep(50 * time.Millisecond) {
		err := audit.Write(ctx, c, note)
		refused, isError := errors.AsType[*mysql.MySQLError](err)
		denied := isError && (refused.Number == 1044 || refused.Number == 1045)
		if !denied || time.Now().After(deadline) {
			return err
		}
	}
}

// makePredecessor creates a binding with parameters that its successor inherits.
func (w *world) makePredecessor(x *target) (err error) {
	x.binding.Role = "read-only"
	x.before, err = w.bindWith(x.plan, x.instance.ID, map[string]any{"ttl": "8h", "role": x.binding.Role})
	return err
}

// makeSource creates the instance whose data the operation reads.
func (w *world) makeSource(ctx context.Context, x *target) (err error) {
	of := target{workflow: workflow{kind: backup, plan: x.plan, view: x.view}}
	of, err = w.prepare(ctx, of.workflow, audit.Instance{})
	x.source, x.instance.Note = of.instance, of.instance.Note
	if err != nil || x.from == clone {
		return err
	}
	return w.backUp(x.plan, x.source.ID)
}

func (w *world) backUp(p plan, id string) error {
	got, err := w.run(p.backUp(id))
	if err != nil || got.failed {
		return errors.Join(fmt.Errorf("back up: %s", got.Raw), err)
	}
	return nil
}

// backUpAndChange takes the backup that a restore in place brings back, and then changes the note.
func (w *world) backUpAndChange(ctx context.Context, x *target) error {
	if err := w.backUp(x.plan, x.instance.ID); err != nil {
		return err
	}
	if err := w.tasks.QueryRow(ctx, "SELECT id FROM backup WHERE instance_id = $1", x.instance.ID).
		Scan(&x.backup); err != nil {
		return fmt.Errorf("find the backup: %w", err)
	}
	x.earlier, x.instance.Note = x.instance.Note, uuid.NewString()
	if err := audit.Change(ctx, x.binding.Credentials, x.instance.Note); err != nil {
		return err
	}
	w.tell(x.instance)
	return nil
}

// leaveView makes a view. Of an instance that is deleted, its account stays, and the instance has another binding.
func (w *world) leaveView(ctx context.Context, x *target) (err error) {
	if err := defineView(ctx, x.binding.Credentials); err != nil || x.kind == unbind {
		return err
	}
	if err := w.unbind(x.plan, x.binding); err != nil {
		return err
	}
	x.binding, err = w.bind(x.plan, x.instance.ID)
	return err
}

func defineView(ctx context.Context, c audit.Credentials) error {
	db, err := c.Open()
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, "CREATE VIEW notes AS SELECT text FROM note")
	return err
}

// make provisions an instance. Its data are kept when it is deleted, if keep is true.
func (w *world) make(p plan, keep bool, i *audit.Instance) error {
	q := p.provision(i.ID)
	if keep {
		q = p.provisionWith(i.ID, map[string]any{})
	}
	got, err := w.run(q)
	if err != nil || got.failed {
		return errors.Join(fmt.Errorf("provision: %s", got.Raw), err)
	}
	i.State = audit.Exists
	w.tell(*i)
	return nil
}

func (w *world) bind(p plan, instanceID string) (audit.Binding, error) {
	return w.bindWith(p, instanceID, nil)
}

func (w *world) bindWith(p plan, instanceID string, parameters map[string]any) (audit.Binding, error) {
	b := audit.Binding{InstanceID: instanceID, ID: uuid.NewString(), State: audit.Exists}
	b.Role, _ = parameters["role"].(string)
	q := p.bind(instanceID, b.ID)
	if parameters != nil {
		q.body.(map[string]any)["parameters"] = parameters
	}
	got, err := w.run(q)
	if err == nil {
		b.Credentials, err = audit.ReadCredentials(got.Body["credentials"])
	}
	w.tellBinding(b)
	return b, err
}

func (w *world) unbind(p plan, b audit.Binding) error {
	_, err := w.run(p.unbind(b.InstanceID, b.ID))
	b.State = audit.Gone
	w.tellBinding(b)
	return err
}

// request is what begins the operation.
func (x target) request() request {
	switch x.kind {
	case provision:
		if x.keep {
			return x.plan.undelete(x.instance.ID, x.deleted)
		}
		switch x.from {
		case clone:
			return x.plan.clone(x.instance.ID, x.source.ID)
		case restore:
			return x.plan.restore(x.instance.ID, x.source.ID)
		}
		return x.plan.provision(x.instance.ID)
	case backup:
		return x.plan.backUp(x.instance.ID)
	case restore:
		return x.plan.restoreInPlace(x.instance.ID, x.backup)
	case update:
		q := x.plan.update(x.instance.ID, x.to)
		if x.version != "" {
			q.body.(map[string]any)["maintenance_info"] = map[string]any{"version": x.version}
		}
		return q
	case bind:
		q := x.plan.bind(x.instance.ID, x.binding.ID)
		if x.next {
			q.body = map[string]any{"predecessor_binding_id": x.before.ID}
		}
		return q
	case unbind:
		return x.plan.unbind(x.instance.ID, x.binding.ID)
	}
	return x.plan.deprovision(x.instance.ID)
}

// mitigation is what a platform sends instead if it would rather be rid of what it got no answer for, if there is such
// a request. OSB API, "Orphan Mitigation".
func (x target) mitigation() (request, bool) {
	switch x.kind {
	case provision:
		return x.plan.deprovision(x.instance.ID), true
	case bind:
		return x.plan.unbind(x.instance.ID, x.binding.ID), true
	}
	return request{}, false
}

// tell records what the platform learns from a successful request.
func (w *world) learn(x *target, q request, got outcome) (err error) {
	switch q.kind {
	case provision:
		x.instance.State = audit.Exists
		w.tell(x.instance)
		if x.from != "" { // the note is read by a binding
			_, err = w.bind(x.plan, x.instance.ID)
		}
	case restore:
		x.instance.Note = x.earlier
		w.tell(x.instance)
	case update:
		x.instance.PlanID = x.to.id
		w.tell(x.instance)
		err = w.learnMove(x)
	case bind:
		x.binding.State = audit.Exists
		x.binding.Credentials, err = audit.ReadCredentials(got.Body["credentials"])
		w.tellBinding(x.binding)
		if metadata, _ := got.Body["metadata"].(map[string]any); x.next && metadata["expires_at"] == nil {
			err = errors.Join(err, fmt.Errorf("the successor does not expire: %s", got.Raw))
		}
	case unbind:
		x.binding.State = audit.Gone
		w.tellBinding(x.binding)
	case deprovision:
		x.instance.State = audit.Gone
		w.tellGone(x.instance.ID)
	}
	return err
}

// learnMove reads the credentials that a binding has after its instance's data were moved.
func (w *world) learnMove(x *target) error {
	if !x.moves() {
		return nil
	}
	r, err := w.survivor().Send("GET", bindingPath(x.instance.ID, x.binding.ID), nil, nil)
	if err != nil {
		return err
	}
	moved, err := audit.ReadCredentials(r.Body["credentials"])
	if err != nil {
		return fmt.Errorf("fetch the binding after the move: %d %s: %w", r.Status, r.Raw, err)
	}
	if moved.Port == x.binding.Credentials.Port { // it was given up, or has been undone
		return errors.New("the binding has the address from before the move")
	}
	x.binding.Former, x.binding.Credentials = x.binding.Credentials, moved
	w.tellBinding(x.binding)
	return nil
}

// clear deletes what an operation has left, as a platform does.
func (w *world) clear(x *target, host audit.Instance) error {
	if x.instance.ID == host.ID {
		if x.binding.State != audit.Exists {
			return nil
		}
		return w.unbind(x.plan, x.binding)
	}
	if x.source.ID != "" {
		source := target{workflow: workflow{kind: deprovision, plan: x.plan}, instance: x.source}
		if err := w.delete(&source); err != nil {
			return err
		}
	}
	if x.instance.State == audit.Gone || x.instance.State == "" {
		return nil
	}
	return w.delete(x)
}

func (w *world) delete(x *target) error {
	p := x.plan
	if x.instance.PlanID == x.to.id { // an update has succeeded
		p = x.to
	}
	q := p.deprovision(x.instance.ID)
	got, err := w.run(q)
	if err != nil || got.failed {
		return errors.Join(fmt.Errorf("deprovision: %s", got.Raw), err)
	}
	return w.learn(x, q, got)
}
