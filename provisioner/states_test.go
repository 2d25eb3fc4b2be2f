package provisioner_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"mysql-broker/broker/catalog"
	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/cmd/mysql-broker/operator"
	"mysql-broker/provisioner"
	"mysql-broker/provisioner/backups"
	"mysql-broker/provisioner/bindings"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/instances"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/retained"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
	"mysql-broker/test/inprocess"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// shipped are the plans of the catalog.
func shipped(t *testing.T, env map[string]string) plan.Set {
	offered, err := catalog.Load(env["CATALOG"])
	require.NoError(t, err)
	return offered.Plans()
}

// scene is an instance in a state, with a binding and a backup.
type scene struct {
	inprocess.Site
	instance store.Instance
	binding  string
	backup   string
	another  string // the id of an instance that the operation creates
	flavour  mysqladmin.Flavour
	kept     bool // backups are kept: there is an object store
	tasks    testdrive.Tasks
}

var small, large, newer plan.Plan // of catalog.yml

// states are set in the store as operations set them. after undoes what concerns other instances.
var states = []struct {
	name  string
	set   func(*scene)
	after func(*scene)
}{
	{"ready", func(*scene) {}, nil},
	{"over its quota", func(s *scene) { s.change(func(tx *store.Tx) { tx.SetOver(s.instance.ID, true) }) }, nil},
	{"frozen", func(s *scene) { s.change(func(tx *store.Tx) { tx.SetFrozen(s.instance.ID, true) }) }, nil},
	{"changing", func(s *scene) { s.busy(store.Update, "") }, nil},
	{"being restored", func(s *scene) { s.busy(store.Restore, "") }, nil},
	{"being backed up", func(s *scene) { s.busy(store.BackUp, "") }, nil},
	{"a binding changes", func(s *scene) { s.busy(store.Bind, "another") }, nil},
	{"being deleted", func(s *scene) { s.busy(store.Deprovision, "") }, nil},
	{"deletion failed", func(s *scene) {
		s.change(func(tx *store.Tx) { tx.SetInstanceState(s.instance.ID, store.DeleteFailed) })
	}, nil},
	{"its data is lost", func(s *scene) { testdrive.Exec(s.T, s.Root, "DROP DATABASE `"+s.instance.Database+"`") }, nil},
	{"its plan is removed", func(s *scene) {
		s.change(func(tx *store.Tx) { tx.SetInstancePlan(s.instance.ID, "removed", "1.0.0") })
	}, nil},
	{"deleted", func(s *scene) {
		s.change(func(tx *store.Tx) { tx.SetKeepDeletedDays(s.instance.ID, 0) })
		s.Must(s.delete(s.Context()))
		s.ended()
	}, nil},
	{"deleted and kept", keep, nil},
	{"its server drains", func(s *scene) {
		_, err := s.Store.Servers.Drain(s.Context(), inprocess.SharedName)
		s.Must(err)
	}, func(s *scene) { s.Must(s.Store.Servers.Undrain(s.Context(), inprocess.SharedName)) }},
	{"no object store", func(s *scene) { s.kept = false }, nil},
	{"held", func(s *scene) { s.Must(s.Store.Recovery.SetHold(s.Context(), "a test", 0)) },
		func(s *scene) { s.Must(s.Store.Recovery.Resume(s.Context(), 1<<20)) }},
}

func keep(s *scene) {
	s.Must(s.delete(s.Context()))
	s.ended()
}

func (s *scene) name() string { return nameOf(s.instance.ID) }

func (s *scene) change(fn func(*store.Tx)) {
	s.InTx(func(tx *store.Tx) error { fn(tx); return nil })
}

// busy records a task that stays in progress, as no broker can read what it asks for.
func (s *scene) busy(kind, binding string) {
	s.change(func(tx *store.Tx) {
		tx.InsertTask(store.NewTask{InstanceID: s.instance.ID, BindingID: binding, Kind: kind, PlanID: small.ID,
			Request: json.RawMessage("[]")})
	})
}

// operations have the roads on which they begin, all of which get the same answer.
var operations = []struct {
	name  string
	roads roads
	want  string // a letter for each state: see answer
}{
	{"create another", roads{"platform": func(ctx context.Context, s *scene) error {
		return s.provision(ctx, s.another, plan.InstanceParameters{})
	}}, "+++++++++++++x+h"},
	{"create with clone_from", roads{"platform": func(ctx context.Context, s *scene) error {
		return s.provision(ctx, s.another, plan.InstanceParameters{CloneFrom: s.instance.ID})
	}}, "++++b++uu++--x+h"},
	{"create with restore_from", roads{"platform": func(ctx context.Context, s *scene) error {
		return s.provision(ctx, s.another, plan.InstanceParameters{RestoreFrom: s.backup})
	}}, "+++++++++++++xsh"},
	{"create with undelete", roads{"platform": func(ctx context.Context, s *scene) error {
		return s.provision(ctx, s.another, plan.InstanceParameters{Undelete: s.instance.ID})
	}}, "------------+++h"},
	{"bind", roads{"platform": func(ctx context.Context, s *scene) error {
		_, _, err := s.Broker.Bind(ctx, bindings.BindRequest{InstanceID: s.instance.ID, BindingID: uuid.NewString(),
			ServiceID: small.ServiceID, Parameters: plan.BindingParameters{Role: plan.ReadWrite}})
		return err
	}}, "++fbb++bulp--+++"},
	{"unbind", roads{"platform": func(ctx context.Context, s *scene) error {
		return s.Broker.Unbind(ctx, bindings.UnbindRequest{InstanceID: s.instance.ID, BindingID: s.binding})
	}, "schedule": expire}, "+++bb++b+++--++h"},
	{"rotate-bindings", roads{"command": func(ctx context.Context, s *scene) error {
		_, err := bindings.RotateBinding(ctx, s.Store, nil, s.instance.ID, s.binding)
		return err
	}}, "+++bb++b+++--++h"},
	{"change the plan", roads{"platform": func(ctx context.Context, s *scene) error {
		return s.update(ctx, large, false, plan.UpdateParameters{})
	}}, "++fbbbbbu++--++h"},
	{"change keep_deleted_days", roads{"platform": func(ctx context.Context, s *scene) error {
		return s.update(ctx, s.plan(), false, plan.UpdateParameters{KeepDeletedDays: plan.InDays(3)})
	}}, "+++bbbbbu++--+++"},
	{"upgrade", roads{"platform": func(ctx context.Context, s *scene) error {
		return s.update(ctx, newer, true, plan.UpdateParameters{})
	}, "command": func(ctx context.Context, s *scene) error {
		_, err := instances.Upgrade(ctx, s.Store, plan.Set{newer, large}, true, s.instance.ID)
		return err
	}}, "++fbbbbbu++--++h"},
	{"move", roads{"command": func(ctx context.Context, s *scene) error {
		return s.command("move", s.name(), otherServer)
	}}, "++fbbbbbu++--++h"},
	{"back up", roads{"platform": func(ctx context.Context, s *scene) error {
		return s.update(ctx, s.plan(), false, plan.UpdateParameters{Backup: plan.BackupNow})
	}, "command": func(ctx context.Context, s *scene) error {
		return s.command("backups", "now", s.name())
	}, "schedule": func(ctx context.Context, s *scene) error {
		if !s.kept {
			return errNotDue // without an object store there is no schedule
		}
		due, err := s.Store.Backups.Due(ctx, []store.BackupSchedule{{PlanID: small.ID, Every: time.Nanosecond}}, 1<<20)
		if err == nil && !slices.Contains(due, s.instance.ID) {
			return errNotDue
		}
		_, err = backups.BackUpNow(ctx, s.Store, plan.Set{small, large}, s.instance.ID)
		return err
	}}, "++fbbb+bu++--+sh"},
	{"restore in place", roads{"platform": func(ctx context.Context, s *scene) error {
		return s.update(ctx, s.plan(), false, plan.UpdateParameters{RestoreBackup: s.backup, Confirm: s.name()})
	}, "command": func(ctx context.Context, s *scene) error {
		return s.command("backups", "restore", "--yes", s.backup, s.name())
	}, "command with --lost": func(ctx context.Context, s *scene) error {
		return s.command("backups", "restore", "--yes", "--lost", s.backup, s.name())
	}}, "+++bbbbbu++--+sh"},
	{"delete", roads{"platform": func(ctx context.Context, s *scene) error { return s.delete(ctx) }}, "++++b++++++--++h"},
	{"retained purge", roads{"command": func(ctx context.Context, s *scene) error {
		return s.command("retained", "purge", "--yes", s.name())
	}, "schedule": purge}, "------------+++h"},
	{"verify its backup", roads{"command": func(ctx context.Context, s *scene) error {
		return s.command("backups", "verify", s.backup)
	}, "schedule": verify}, "++++++++++++++sh"},
}

type roads = map[string]func(context.Context, *scene) error

var errNotDue = errors.New("not due")

const otherServer = "shared-2"

// nameOf is what the platform calls an instance, and operators in commands.
func nameOf(id string) string { return "my " + id }

func (s *scene) provision(ctx context.Context, id string, p plan.InstanceParameters) error {
	_, err := s.Broker.Provision(ctx, engine.ProvisionRequest{InstanceID: id, Plan: small, OrganizationGUID: "org",
		SpaceGUID: "space", Parameters: p, AcceptsIncomplete: true, Context: engine.Encode(map[string]string{
			"platform": "cloudfoundry", "organization_guid": "org", "space_guid": "space", "instance_name": nameOf(id)})})
	return err
}

// plan is the plan that the platform names.
func (s *scene) plan() plan.Plan {
	p := small
	if i, err := s.Store.Instances.Get(s.Context(), s.instance.ID); err == nil {
		p.ID = i.PlanID
	}
	return p
}

func (s *scene) update(ctx context.Context, to plan.Plan, upgrade bool, p plan.UpdateParameters) error {
	_, err := s.Broker.Update(ctx, engine.UpdateRequest{InstanceID: s.instance.ID, ServiceID: small.ServiceID, Plan: to,
		Upgrade: upgrade, Parameters: p, AcceptsIncomplete: true})
	return err
}

func (s *scene) delete(ctx context.Context) error {
	_, err := s.Broker.Deprovision(ctx, instances.DeprovisionRequest{InstanceID: s.instance.ID, Plan: small,
		AcceptsIncomplete: true})
	return err
}

// expire ends the binding as its ttl does.
func expire(ctx context.Context, s *scene) error {
	if _, err := s.Store.Bindings.Get(ctx, s.instance.ID, s.binding); err != nil {
		return err
	}
	s.tasks.Exec(s.T, "UPDATE binding SET expires_at = now() WHERE id = $1", s.binding)
	if err := s.Broker.ExpireDue(ctx); err != nil {
		return err
	}
	_, err := s.Store.Tasks.Latest(ctx, s.instance.ID, s.binding, store.Expire)
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return cmp.Or(s.Store.Recovery.Held(ctx), error(engine.ErrBusy))
}

// purge drops retained data as the end of its days does.
func purge(ctx context.Context, s *scene) error {
	left := func() (n int) {
		s.tasks.Scan(s.T, &n, "SELECT count(*) FROM retained WHERE instance_id = $1", s.instance.ID)
		return n
	}
	if left() == 0 {
		return store.ErrNotFound
	}
	s.tasks.Exec(s.T, "UPDATE retained SET until = now() WHERE instance_id = $1", s.instance.ID)
	for left() > 0 {
		if err := s.run(ctx, retained.PurgeRetained); err != nil {
			return err
		}
	}
	return nil
}

// verify has the hourly task find out that the backup, of which only the record is there, cannot be restored.
func verify(ctx context.Context, s *scene) error {
	if !s.kept {
		return errNotDue // without an object store there is no schedule
	}
	s.Must(s.Store.Backups.ForgetVerification(ctx, s.backup))
	for {
		if err := s.run(ctx, backups.VerifyBackups); err != nil {
			return err
		}
		if b, err := s.Store.Backups.Get(ctx, s.backup); err != nil || b.VerifyError != "" {
			return err
		}
	}
}

// run runs a scheduled task, and waits for its end.
func (s *scene) run(ctx context.Context, kind string) error {
	t, err := task.RunNow(ctx, s.Store, kind, provisioner.TaskKinds()[kind])
	if err == nil {
		_, err = s.Store.Tasks.WaitEnd(ctx, t.ID)
	}
	return err
}

// command runs a command of operators in this process.
func (s *scene) command(args ...string) error {
	env := maps.Clone(s.Env)
	if !s.kept {
		delete(env, "BACKUP_STORE")
	}
	root := &cobra.Command{Use: "mysql-broker", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(operator.Commands()...)
	root.SetArgs(args)
	root.SetOut(s.Output())
	return root.ExecuteContext(cli.WithEnvironment(s.Context(), func(name string) string { return env[name] }))
}

// answer is the letter of the table for what a road returns.
func answer(err error) string {
	notNow, _ := errors.AsType[engine.NotNowError](err)
	refusal, refused := errors.AsType[*engine.Error](err)
	_, unconfigured := errors.AsType[*cli.ConfigError](err)
	says := func(sentence string) bool { return err != nil && strings.Contains(err.Error(), sentence) }
	switch {
	case err == nil:
		return "+"
	case errors.Is(err, errNotDue):
		return "."
	case errors.Is(err, engine.ErrFull):
		return "x"
	case errors.Is(err, store.ErrHeld):
		return "h"
	case errors.Is(err, engine.ErrBusy), errors.Is(err, bindings.ErrChanging), notNow == engine.InProgress,
		says("is being restored"):
		return "b"
	case errors.Is(err, engine.ErrFrozen), notNow == engine.Mixture:
		return "f"
	case errors.Is(err, engine.ErrNotReady), notNow == engine.NotReady,
		says(" is not ready, so it cannot be copied."), says(" is being deleted, so it cannot be copied."):
		return "u"
	case unconfigured, says("This broker keeps no backups"):
		return "s"
	case says("somebody has dropped it"):
		return "l"
	case says("The plan of this service instance is not offered any more"):
		return "p"
	case errors.Is(err, store.ErrNotFound), says("There is no "), says("there is no "), says("nothing is retained"),
		refused && (refusal.Code == engine.NotFound || refusal.Code == engine.AlreadyDeleted):
		return "-"
	}
	return err.Error()
}

// What an instance's state allows does not depend on who asks. The table in docs/operations.md says the same.
func TestStates(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	env := testdrive.Environment(t, server)
	env["BACKUP_STORE"] = "file://" + t.TempDir()
	env["MYSQL_SERVERS"] = testdrive.Encode(t, []any{testdrive.Described(inprocess.SharedName, server),
		testdrive.Described(otherServer, testdrive.Private(t, server.Flavour))})
	plans := shipped(t, env)
	plans[0].KeepDeletedDays, plans[0].Async = 7, plan.AsyncPreferred // a request waits for no task
	small, large = plans.Get("482650c1-b09b-47d4-952a-7d320c6dd4d1"), plans.Get("80dae88e-93d0-4072-969d-811f9ce9a3bd")
	newer = small
	newer.MaintenanceVersion = "9.0.0"
	site := inprocess.New(t, server, env, plans)
	_, err := site.Store.Servers.Drain(t.Context(), otherServer)
	site.Must(err)
	tasks := testdrive.OpenTasks(t, env)
	bare := provisioner.New(provisioner.Config{Store: site.Store, Plans: plans, Fleet: site.Fleet,
		Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(bare.Stop)

	var all []*asked
	for _, o := range operations {
		require.Equal(t, len(states), len(o.want), "%s has %d answers for %d states", o.name, len(o.want), len(states))
		for _, road := range slices.Sorted(maps.Keys(o.roads)) {
			all = append(all, &asked{operation: o.name, road: road, ask: o.roads[road]})
		}
	}
	at := slices.IndexFunc(all, func(a *asked) bool { return a.operation == "move" })
	move, others := all[at:at+1], slices.Concat(all[:at], all[at+1:])
	for _, state := range states {
		forEach(all, func(a *asked) {
			a.scene = newScene(site, tasks)
			if state.after != nil || state.name == "no object store" {
				if a.operation == "create with undelete" || a.operation == "retained purge" {
					keep(a.scene)
				}
			}
		})
		forEach(all, func(a *asked) { state.set(a.scene) })
		if state.name == "no object store" {
			for _, a := range all {
				a.scene.Broker = bare
			}
		}
		answer := func(a *asked) { a.got += answer(a.ask(a.scene.Context(), a.scene)) }
		forEach(others, answer)
		site.Must(site.Store.Servers.Undrain(t.Context(), otherServer))
		forEach(move, answer)
		if state.after != nil {
			state.after(all[0].scene)
		}
		_, err := site.Store.Servers.Drain(t.Context(), otherServer)
		site.Must(err)
	}
	page, err := os.ReadFile(filepath.Join(testdrive.Root(), "docs", "operations.md"))
	site.Must(err)
	var names []string
	for _, state := range states {
		names = append(names, state.name)
	}
	in := func(state, letter, want string) string {
		n := slices.Index(names, state)
		return want[:n] + letter + want[n+1:]
	}
	table := "| | " + strings.Join(names, " | ") + " |\n|" + strings.Repeat("---|", len(names)+1) + "\n"
	for _, o := range operations {
		row := strings.Join(strings.Split(o.want, ""), " | ")
		if o.name == "delete" { // and keep the data
			row = strings.Replace(row, "b", "b if kept", 1)
		}
		table += "| " + o.name + " | " + row + " |\n"
		for _, a := range all {
			want := o.want
			switch {
			case a.operation != o.name:
				continue
			case a.road == "schedule" && o.name == "verify its backup":
				want = in("no object store", ".", want)
			case a.road == "schedule" && o.name == "back up": // which leaves them out, and a removed plan has none
				want = in("its plan is removed", ".", notBegun.ReplaceAllString(want, "."))
			case o.name == "back up" && a.road == "platform":
				want = in("being backed up", "+", want) // it joins the backup in progress
			}
			assert.Equal(t, want, a.got, "%s by %s", o.name, a.road)
		}
	}
	assert.True(t, strings.Contains(string(page), "\n\n"+table+"\n"),
		"docs/operations.md has another table than\n%s", table)
}

var notBegun = regexp.MustCompile("[^+h]")

// asked is an operation that is tried by one road.
type asked struct {
	operation, road, got string
	ask                  func(context.Context, *scene) error
	scene                *scene
}

// forEach runs fn for several at once.
func forEach(all []*asked, fn func(*asked)) {
	var running errgroup.Group
	running.SetLimit(8)
	for _, a := range all {
		running.Go(func() error { fn(a); return nil })
	}
	_ = running.Wait()
}

func newScene(site *inprocess.Site, tasks testdrive.Tasks) *scene {
	s := &scene{Site: *site, binding: uuid.NewString(), backup: engine.NewName("b_"), another: uuid.NewString(), kept: true,
		tasks: tasks}
	s.instance.ID = uuid.NewString()
	server, err := s.Fleet.Shared.Server(inprocess.SharedName)
	s.Must(err)
	s.flavour, err = server.Flavour(s.Context())
	s.Must(err)
	s.Must(s.provision(s.Context(), s.instance.ID, plan.InstanceParameters{}))
	s.ended()
	s.instance = s.Instance(s.instance.ID)
	site.Bind(s.instance, s.binding, plan.BindingParameters{Role: plan.ReadWrite})
	b := store.Backup{ID: s.backup, InstanceID: s.instance.ID, ServiceID: small.ServiceID, PlanID: small.ID,
		Platform: "cloudfoundry", OrganizationGUID: "org", SpaceGUID: "space", Flavour: s.flavour.Name, Version: s.flavour.Version,
		TakenAt: new(time.Now()), FinishedAt: new(time.Now())}
	site.InTx(func(tx *store.Tx) error {
		tx.InsertBackup(b, time.Hour)
		tx.CompleteBackup(b)
		return nil
	})
	return s
}

// ended waits for the end of the latest task.
func (s *scene) ended() store.Task {
	t, err := s.Store.Tasks.Latest(s.Context(), s.instance.ID, "", "")
	s.Must(err)
	t, err = s.Store.Tasks.WaitEnd(s.Context(), t.ID)
	s.Must(err)
	return t
}

// A dedicated server is destroyed before its instance's deletion has ended. Requests that arrive in between read that the
// instance is busy.
func TestRequestsAfterAServerIsDestroyed(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	env := testdrive.Environment(t, server)
	plans := shipped(t, env)
	site := inprocess.New(t, server, env, plans)
	_, largeID := testdrive.Plan(t, "dedicated-large")
	_, smallID := testdrive.Plan(t, "dedicated-small")
	large, small := plans.Get(largeID), plans.Get(smallID)
	destroyed := func(id string) {
		site.InTx(func(tx *store.Tx) error {
			tx.Adopt(store.InstanceCopy{ID: id, ServiceID: large.ServiceID, PlanID: large.ID, Database: "db_" + id},
				store.DedicatedLocation("process", "d_"+id))
			err := tx.InsertBinding(store.Binding{InstanceID: id, ID: "b", Account: "u_" + id, Password: "secret"})
			tx.SetBindingState(id, "b", store.Ready)
			return err
		})
	}
	destroyed("deleted")
	(&scene{Site: *site, instance: site.Instance("deleted")}).busy(store.Deprovision, "")
	_, err := site.Broker.Binding(t.Context(), "deleted", "b")
	assert.Equal(t, "b", answer(err), "fetch the binding")
	_, _, err = site.Broker.Bind(t.Context(), bindings.BindRequest{InstanceID: "deleted", BindingID: "another",
		ServiceID: large.ServiceID, Parameters: plan.BindingParameters{Role: plan.ReadWrite}})
	assert.Equal(t, "b", answer(err), "bind")
	_, err = site.Broker.Update(t.Context(), engine.UpdateRequest{InstanceID: "deleted", ServiceID: large.ServiceID,
		Plan: small, AcceptsIncomplete: true})
	assert.Equal(t, "b", answer(err), "change the plan")

	destroyed("lost")
	_, err = site.Broker.Binding(t.Context(), "lost", "b")
	assert.ErrorIs(t, err, launcher.ErrNotFound, "nobody deletes the instance")
}
