package provisioner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mysql-broker/provisioner/backups"
	"mysql-broker/provisioner/bindings"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/instances"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
	"mysql-broker/test/inprocess"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// scene is an instance in a state, with a binding and a backup.
type scene struct {
	*inprocess.Site
	instance store.Instance
	binding  string
	backup   string
}

var (
	small = plan.Plan{ID: "small", Name: "small", ServiceID: "mysql", Kind: plan.Shared, Async: plan.AsyncPreferred,
		MaxStorageMB: 100, MaxConnections: 20, MaxBindings: 10, MaintenanceVersion: "1.0.0"}
	large = func() plan.Plan { p := small; p.ID, p.Name, p.MaxStorageMB = "large", "large", 1000; return p }()
	newer = func() plan.Plan { p := small; p.MaintenanceVersion = "2.0.0"; return p }()
)

// states are set in the store as operations set them. Without set, the instance is deleted.
var states = []struct {
	name string
	set  func(scene, *store.Tx)
}{
	{"ready", func(scene, *store.Tx) {}},
	{"over its quota", func(s scene, tx *store.Tx) { tx.SetOver(s.instance.ID, true) }},
	{"frozen", func(s scene, tx *store.Tx) { tx.SetFrozen(s.instance.ID, true) }},
	{"changing", func(s scene, tx *store.Tx) { s.busy(tx, store.Update, "") }},
	{"being backed up", func(s scene, tx *store.Tx) { s.busy(tx, store.BackUp, "") }},
	{"another binding changes", func(s scene, tx *store.Tx) { s.busy(tx, store.Bind, "another") }},
	{"deletion failed", func(s scene, tx *store.Tx) { tx.SetInstanceState(s.instance.ID, store.DeleteFailed) }},
	{"deleted", nil},
}

// busy records a task that another broker works on.
func (s scene) busy(tx *store.Tx, kind, binding string) {
	tx.InsertTask(store.NewTask{InstanceID: s.instance.ID, BindingID: binding, Kind: kind, PlanID: small.ID,
		Request: engine.Request{Async: true, PlanID: "other"}.JSON(), Owner: "another broker", LeaseTTL: time.Hour})
}

// operations have the roads on which they begin, all of which get the same answer.
var operations = []struct {
	name  string
	roads roads
	want  string // an answer for each state
}{
	{"bind", roads{"platform": func(ctx context.Context, s scene) error {
		_, _, err := s.Broker.Bind(ctx, bindings.BindRequest{InstanceID: s.instance.ID, BindingID: uuid.NewString(),
			ServiceID: small.ServiceID, Parameters: plan.BindingParameters{Role: plan.ReadWrite}})
		return err
	}}, "yes yes frozen busy yes yes unready gone"},
	{"unbind", roads{"platform": func(ctx context.Context, s scene) error {
		return s.Broker.Unbind(ctx, bindings.UnbindRequest{InstanceID: s.instance.ID, BindingID: s.binding})
	}}, "yes yes yes busy yes yes yes gone"},
	{"rotate the password of a binding", roads{"command": func(ctx context.Context, s scene) error {
		_, err := bindings.RotateBinding(ctx, s.Store, nil, s.instance.ID, s.binding)
		return err
	}}, "yes yes yes busy yes yes yes gone"},
	{"change the plan", roads{"platform": func(ctx context.Context, s scene) error {
		return s.update(ctx, large, false, plan.UpdateParameters{})
	}}, "yes yes frozen busy busy busy unready gone"},
	{"change keep_deleted_days", roads{"platform": func(ctx context.Context, s scene) error {
		return s.update(ctx, small, false, plan.UpdateParameters{KeepDeletedDays: plan.InDays(3)})
	}}, "yes yes yes busy busy busy unready gone"},
	{"upgrade", roads{"platform": func(ctx context.Context, s scene) error {
		return s.update(ctx, newer, true, plan.UpdateParameters{})
	}, "command": func(ctx context.Context, s scene) error {
		_, err := instances.Upgrade(ctx, s.Store, plan.Set{newer, large}, true, s.instance.ID)
		return err
	}}, "yes yes frozen busy busy busy unready gone"},
	{"back up", roads{"platform": func(ctx context.Context, s scene) error {
		return s.update(ctx, small, false, plan.UpdateParameters{Backup: plan.BackupNow})
	}, "command": func(ctx context.Context, s scene) error {
		_, err := backups.BackUpNow(ctx, s.Store, plan.Set{small, large}, s.instance.ID)
		return err
	}}, "yes yes frozen busy busy yes unready gone"},
	{"restore in place", roads{"platform": func(ctx context.Context, s scene) error {
		return s.update(ctx, small, false, plan.UpdateParameters{RestoreBackup: s.backup, Confirm: s.instance.ID})
	}, "command": restore(false), "command with --lost": restore(true)},
		"yes yes yes busy busy busy unready gone"},
	{"delete", roads{"platform": func(ctx context.Context, s scene) error {
		_, err := s.Broker.Deprovision(ctx, instances.DeprovisionRequest{InstanceID: s.instance.ID, Plan: small,
			AcceptsIncomplete: true})
		return err
	}}, "yes yes yes yes yes yes yes gone"},
}

type roads = map[string]func(context.Context, scene) error

func restore(lost bool) func(context.Context, scene) error {
	return func(ctx context.Context, s scene) error {
		_, err := backups.RestoreBackup(ctx, s.Store, plan.Set{small, large}, s.backup, s.instance.ID, lost)
		return err
	}
}

func (s scene) update(ctx context.Context, to plan.Plan, upgrade bool, p plan.UpdateParameters) error {
	_, err := s.Broker.Update(ctx, engine.UpdateRequest{InstanceID: s.instance.ID, ServiceID: small.ServiceID, Plan: to,
		Upgrade: upgrade, Parameters: p, AcceptsIncomplete: true})
	return err
}

// answer is the word of the table for what a road returns.
func answer(err error) string {
	notNow, _ := errors.AsType[engine.NotNowError](err)
	refusal, refused := errors.AsType[*engine.Error](err)
	switch {
	case errors.Is(err, store.ErrNotFound),
		refused && (refusal.Code == engine.NotFound || refusal.Code == engine.AlreadyDeleted):
		return "gone"
	case err == nil:
		return "yes"
	case errors.Is(err, engine.ErrBusy), errors.Is(err, bindings.ErrChanging), notNow == engine.InProgress:
		return "busy"
	case errors.Is(err, engine.ErrFrozen), notNow == engine.Mixture:
		return "frozen"
	case errors.Is(err, engine.ErrNotReady), notNow == engine.NotReady:
		return "unready"
	}
	return err.Error()
}

// What an instance's state allows does not depend on who asks. The table in docs/operations.md says the same.
func TestStates(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(testdrive.Root(), "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	env["BACKUP_STORE"] = "file://" + t.TempDir()
	site := inprocess.New(t, s, env, plan.Set{small, large})
	table := "| |"
	for _, state := range states {
		table += " " + state.name + " |"
	}
	table += "\n|" + strings.Repeat("---|", len(states)+1) + "\n"
	for _, o := range operations {
		table += "| " + o.name + " | " + strings.ReplaceAll(o.want, " ", " | ") + " |\n"
		for road, ask := range o.roads {
			for n, want := range strings.Fields(o.want) {
				if o.name == "back up" && road == "platform" && states[n].name == "being backed up" {
					continue // it joins that backup, and waits for nothing
				}
				in := newScene(site)
				if set := states[n].set; set != nil {
					site.InTx(func(tx *store.Tx) error { set(in, tx); return nil })
				} else {
					_, err := site.Broker.Deprovision(t.Context(),
						instances.DeprovisionRequest{InstanceID: in.instance.ID, Plan: small})
					site.Must(err)
				}
				if got := answer(ask(t.Context(), in)); got != want {
					t.Errorf("%s by %s, %s: %s, not %s", o.name, road, states[n].name, got, want)
				}
			}
		}
	}
	if !strings.Contains(string(page), "\n\n"+table+"\n") {
		t.Errorf("docs/operations.md has another table than\n%s", table)
	}
}

func newScene(site *inprocess.Site) scene {
	site.Helper()
	s := scene{Site: site, instance: site.Provision(small), binding: uuid.NewString(), backup: engine.NewName("b_")}
	_, _, err := site.Broker.Bind(site.Context(), bindings.BindRequest{InstanceID: s.instance.ID, BindingID: s.binding,
		ServiceID: small.ServiceID, Parameters: plan.BindingParameters{Role: plan.ReadWrite}})
	site.Must(err)
	b := store.Backup{ID: s.backup, InstanceID: s.instance.ID, ServiceID: small.ServiceID, PlanID: small.ID,
		TakenAt: new(time.Now()), FinishedAt: new(time.Now())}
	site.InTx(func(tx *store.Tx) error {
		tx.InsertBackup(b, time.Hour)
		tx.CompleteBackup(b)
		return nil
	})
	return s
}
