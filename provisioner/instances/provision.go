package instances

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"mysql-broker/provisioner/copying"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/shared"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// Provision creates an instance. A request that repeats an earlier one gets the same result. One with the same id that
// differs is a Conflict. OSB API, "Provisioning".
func (is *Instances) Provision(ctx context.Context, q engine.ProvisionRequest) (engine.Result, error) {
	async, err := engine.RespondsAsync(q.Plan, q.AcceptsIncomplete)
	if q.Parameters.Fills() { // which takes longer than a platform waits
		async = true
		if !q.AcceptsIncomplete {
			err = engine.ErrAsyncRequired
		}
	}
	if err != nil {
		return engine.Result{}, err
	}
	if q.Received.IsZero() {
		q.Received = time.Now()
	}
	ctx, cancel := context.WithTimeout(ctx, engine.SyncDeadline)
	defer cancel()
	for {
		d, err := is.provisionNew(ctx, q, async)
		if errors.Is(err, store.ErrExists) {
			d, err = is.Decide(ctx, func(tx *store.Tx) (engine.Decision, error) { return is.provisionAgain(ctx, tx, q, async) })
		}
		if errors.Is(err, errRaced) {
			if q.ReportedAbsent, err = is.reportedAbsent(ctx, q); err == nil {
				continue
			}
		}
		if err != nil {
			return engine.Result{}, err
		}
		if result, err := is.Run(ctx, d); !errors.Is(err, engine.ErrUndone) {
			return result, err
		}
	}
}

// reportedAbsent returns when the instance was last reported absent to the platform, or nil if that was not recently.
// If that was after the request was received, it returns an error: the platform believes that the instance is deleted,
// so it must not be created. So it does if the client has left: its request may have waited in the network, or at a
// broker that was paused, since before that.
func (is *Instances) reportedAbsent(ctx context.Context, q engine.ProvisionRequest) (*time.Time, error) {
	reported, since, err := is.Store.Instances.ReportedAbsent(ctx, q.InstanceID, q.Received)
	if err != nil {
		return nil, fmt.Errorf("find out when the instance was last reported absent: %w", err)
	}
	if since || reported != nil && q.Left != nil && q.Left() {
		return nil, errOvertaken
	}
	return reported, nil
}

var errOvertaken = engine.Refuse(engine.Busy,
	"The service instance was deleted after this request was sent, so it was not created. Send the request again.")

// errRaced means that an instance was recorded or deleted between two transactions.
var errRaced = errors.New("another request was faster")

// provisionNew records a new instance, or returns store.ErrExists if it is recorded already.
func (is *Instances) provisionNew(ctx context.Context, q engine.ProvisionRequest, async bool) (engine.Decision, error) {
	i := store.Instance{ID: q.InstanceID, ServiceID: q.Plan.ServiceID, PlanID: q.Plan.ID,
		OrganizationGUID: q.OrganizationGUID, SpaceGUID: q.SpaceGUID, Context: q.Context,
		Parameters: engine.Encode(q.Parameters), MaintenanceVersion: q.Plan.MaintenanceVersion}
	if q.Parameters.Undelete != "" {
		return is.undelete(ctx, q, i, async)
	}
	var source store.Instance
	var restored store.Backup
	var err error
	switch {
	case q.Parameters.CloneFrom != "":
		source, err = is.copier.Source(ctx, q)
	case q.Parameters.RestoreFrom != "":
		restored, err = is.backups.BackupToRestore(ctx, q)
	}
	if err != nil {
		return engine.Decision{}, cmp.Or(is.absent(ctx, i.ID), err)
	}
	r := engine.Request{Async: async, BackupID: restored.ID}
	if q.Plan.Kind == plan.Dedicated {
		l, err := is.Fleet.Launcher(q.Plan.Launcher)
		if err != nil {
			return engine.Decision{}, cmp.Or(is.absent(ctx, i.ID), error(&engine.Error{Code: engine.Invalid, Err: err,
				Sentence: "This broker offers no dedicated servers. Choose a shared plan."}))
		}
		if err := plausibleCharset(q.Parameters); err != nil {
			return engine.Decision{}, cmp.Or(is.absent(ctx, i.ID), err)
		}
		i.Location, i.AdminPassword = store.DedicatedLocation(l.Name, engine.NewName("d_")), engine.NewPassword()
		d, _, err := is.recordProvision(ctx, q, i, 0, r)
		return d, err
	}
	takes, err := is.copier.Takes(ctx, source, restored)
	if err != nil {
		return engine.Decision{}, cmp.Or(is.absent(ctx, i.ID), engine.Silent(copying.OfSource, err))
	}
	return is.provisionShared(ctx, q, i, r, takes)
}

// provisionShared records a new instance on the best shared server that takes it.
func (is *Instances) provisionShared(ctx context.Context, q engine.ProvisionRequest, i store.Instance, r engine.Request,
	takes func(*shared.Server) error) (engine.Decision, error) {
	search := &steps.Search{Servers: is.Servers, Plan: q.Plan, Parameters: q.Parameters, Takes: takes}
	for server := range search.Candidates(ctx) {
		i.Location = store.SharedLocation(server.Name())
		d, load, err := is.recordProvision(ctx, q, i, server.MaxDatabases, r)
		if errors.Is(err, store.ErrServerFull) {
			continue
		}
		if err == nil {
			is.SetLoad(server.Name(), load)
		}
		return d, err
	}
	if err := is.absent(ctx, i.ID); err != nil {
		return engine.Decision{}, err
	}
	return engine.Decision{}, search.Failure()
}

// absent returns store.ErrExists if there is an instance with that id: the response to a repeated request does not
// depend on room for another instance.
func (is *Instances) absent(ctx context.Context, id string) error {
	_, err := is.Store.Instances.Get(ctx, id)
	switch {
	case err == nil:
		return store.ErrExists
	case errors.Is(err, store.ErrNotFound):
		return nil
	}
	return fmt.Errorf("find the instance: %w", err)
}

// recordProvision records an instance with its task. max is how many instances the shared server takes. load is how
// many it then holds, or 0 if the instance was not recorded.
func (is *Instances) recordProvision(ctx context.Context, q engine.ProvisionRequest, i store.Instance, max int,
	r engine.Request) (d engine.Decision, load int, err error) {
	since := time.Now()
	i.Database = engine.NewName(mysqladmin.DatabasePrefix)
	t, load, err := is.Store.Instances.RecordProvision(ctx, store.Asked{At: since, Absent: q.ReportedAbsent}, i,
		is.NewTask(ctx, store.NewTask{InstanceID: i.ID, Kind: store.Provision, PlanID: i.PlanID, Request: r.JSON()}),
		store.Room{OnServer: max, Within: is.within(q.Plan)})
	if err != nil {
		return d, load, fmt.Errorf("record the instance: %w", err)
	}
	w, err := is.provisionWorkflow(i, r)
	return engine.Decision{Instance: i, Task: &t, Workflow: w, Async: r.Async, Since: since}, load, err
}

// provisionAgain decides about a request for an instance that is recorded already.
func (is *Instances) provisionAgain(ctx context.Context, tx *store.Tx, q engine.ProvisionRequest,
	async bool) (d engine.Decision, err error) {
	there, err := tx.Begin(ctx, q.InstanceID, "")
	if errors.Is(err, store.ErrNotFound) {
		return d, errRaced
	}
	if err != nil {
		return d, err
	}
	i, active := there.Instance, there.Task("")
	d = engine.Decision{Instance: i, Async: async}
	switch {
	case active != nil && active.Kind == store.Deprovision:
		return d, engine.ErrBusy
	case !sameInstance(i, q):
		return d, engine.Refuse(engine.Conflict,
			"A service instance with this id exists already and differs from the one asked for.")
	case active != nil && active.Kind == store.Provision:
		d.Task, d.Joined = active, true
		return d, nil
	case active != nil || i.State == store.Ready:
		return d, nil
	case i.State == store.DeleteFailed:
		return d, engine.ErrNotReady
	}
	// Its creation failed: the platform asks for another attempt.
	r := engine.Request{Async: async}
	if q.Parameters.RestoreFrom != "" {
		b, err := is.backups.BackupToRestore(ctx, q)
		if err != nil {
			return d, err
		}
		r.BackupID = b.ID
	}
	if d.Workflow, err = is.provisionWorkflow(i, r); err != nil {
		return d, err
	}
	tx.SetInstanceState(i.ID, store.Creating)
	d.Task = tx.InsertTask(is.NewTask(ctx, store.NewTask{InstanceID: i.ID, Kind: store.Provision, PlanID: i.PlanID,
		Request: r.JSON()}))
	return d, nil
}

// sameInstance reports whether a request asks for the recorded instance. Of the SQL of an instance whose record is a
// copy that was kept beside its server, only the checksum is known.
func sameInstance(i store.Instance, q engine.ProvisionRequest) bool {
	var recorded struct {
		plan.InstanceParameters
		Ran string `json:"bootstrap_sha256"`
	}
	if json.Unmarshal(i.Parameters, &recorded) != nil {
		return false
	}
	if recorded.Ran == fmt.Sprintf("%x", sha256.Sum256([]byte(q.Parameters.Bootstrap))) {
		recorded.Bootstrap = q.Parameters.Bootstrap
	}
	return recorded.InstanceParameters == q.Parameters &&
		i.ServiceID == q.Plan.ServiceID && i.PlanID == q.Plan.ID &&
		i.OrganizationGUID == q.OrganizationGUID && i.SpaceGUID == q.SpaceGUID
}

var provisionKind = engine.Kind[*Instances]{
	Beginning: "Creating the service instance",
	Kind:      task.Kind{Advice: "Delete the service instance and create it again.", Undoable: true},
	Workflow: func(ctx context.Context, is *Instances, t store.Task) (task.Workflow, error) {
		i, r, err := is.InstanceTask(ctx, t)
		if err != nil {
			return task.Workflow{}, err
		}
		return is.provisionWorkflow(i, r)
	},
}

// provisionFailed records the end of a provision that failed. The platform of an asynchronous one deletes the instance.
func provisionFailed(i store.Instance, r engine.Request) func(tx *store.Tx, m task.Memory, undone bool) {
	return func(tx *store.Tx, _ task.Memory, undone bool) {
		if r.Async || !undone {
			tx.SetInstanceState(i.ID, store.CreateFailed)
		} else {
			tx.DeleteInstance(i.ID)
		}
	}
}

// provisionWorkflow creates an instance. If a synchronous provision fails, the response says so, and the instance is
// deleted. If an asynchronous one fails, or its cleanup does, the instance stays until the platform deletes it.
func (is *Instances) provisionWorkflow(i store.Instance, r engine.Request) (task.Workflow, error) {
	var parameters plan.InstanceParameters
	if err := json.Unmarshal(i.Parameters, &parameters); err != nil {
		return task.Workflow{}, fmt.Errorf("read the parameters of instance %q: %w", i.ID, err)
	}
	if parameters.Undelete != "" {
		return is.undeleteWorkflow(i, r), nil
	}
	w := task.Workflow{
		Succeeded: func(tx *store.Tx, _ task.Memory) { tx.SetInstanceState(i.ID, store.Ready) },
		Failed:    provisionFailed(i, r),
	}
	lock := steps.InstanceLock(i.ID)
	createDatabase := task.Step{Name: "create database", Progress: "Creating the database",
		Do: is.WithRoom(i, false, is.InSession(i, lock, func(ctx context.Context, run *task.Run,
			s *mysqladmin.Session) error {
			err := s.Databases.Create(ctx, i.Database, parameters.Charset, parameters.Collation)
			if charset, ok := errors.AsType[*mysqladmin.CharsetError](err); ok {
				return engine.Fail(run.Task, engine.Refused, err, charset.Sentence())
			}
			return err
		}))}
	var filled, emptied []task.Step
	if parameters.Fills() {
		fill := copying.Filling{Copier: is.copier, Instance: i, Parameters: parameters, Lock: lock}
		if parameters.RestoreFrom != "" {
			fill.Restore = is.backups.Restorer(r.BackupID)
		}
		filled, emptied = fill.Steps(), fill.Cleanup()
		w.Durable = true // what a user has written since must not be replaced by another copy
	}
	if i.Location.Shared() {
		w.Steps = append([]task.Step{createDatabase}, filled...)
		w.Cleanup = []task.Step{is.DropEmptyDatabase(i)}
		if emptied != nil {
			w.Cleanup = emptied
		}
		return w, nil
	}
	w.Steps = slices.Concat([]task.Step{
		is.Launch(i),
		createDatabase,
		{Name: "check login", Progress: "Checking the first login",
			Do: is.InSession(i, lock, func(ctx context.Context, run *task.Run, s *mysqladmin.Session) error {
				err := is.Fleet.CheckLogin(ctx, i.Location, i.Database, engine.NewPassword(), s)
				return cmp.Or(is.NoRoom(ctx, run, i, false, err), engine.OfOther(errors.Join(err, is.Fleet.Complete(ctx, i))))
			})},
	}, filled, []task.Step{
		{Name: "keep", Progress: "Handing the server over", Do: func(ctx context.Context, _ *task.Run) error {
			return is.Fleet.Keep(ctx, i.Location)
		}},
	})
	w.Cleanup = append(emptied, is.DestroyUnused(i))
	return w, nil
}
