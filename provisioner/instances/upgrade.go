package instances

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/backups"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

const (
	// beforeUpgrade is the reason of the backup before an upgrade.
	beforeUpgrade = "upgrade"
	// upgradeTimeout bounds an attempt to upgrade a server, or to undo that, which copy its data. Another attempt copies
	// them again.
	upgradeTimeout = 12 * time.Hour
)

// upgradeTo returns the version to which an update to a plan upgrades the instance's server, or "" if the server has
// it. If it is not known which version the server has, the launcher decides.
func upgradeTo(i store.Instance, to plan.Plan) (string, error) {
	wanted := launcher.Version{Flavour: to.Flavour, Version: to.Version}
	present := launcher.Version{Flavour: i.ServerFlavour, Version: i.ServerVersion}
	switch {
	case to.Version == "" || !i.Location.Dedicated() || present.Is(wanted.Flavour, wanted.Version):
		return "", nil
	case present.Version == "":
		return wanted.Version, nil
	case present.Flavour != wanted.Flavour:
		return "", engine.Refuse(engine.PlanChangeRefused,
			"Plan %s has servers of %s, and this service instance has one of %s. "+
				"Create a service instance of that plan with clone_from.", to.Name, wanted, present)
	case launcher.CompareVersions(wanted.Version, present.Version) < 0:
		return "", engine.Refuse(engine.PlanChangeRefused,
			"Plan %s has servers of %s, and this service instance has one of %s, which "+
				"cannot go back. Choose another plan, or tell your operator.", to.Name, wanted, present)
	}
	return wanted.Version, nil
}

// Upgradable returns the version to which an update without a change of plan upgrades a dedicated server that has a
// version, and false if it upgrades it to none.
func Upgradable(of plan.Plan, has launcher.Version) (to launcher.Version, can bool) {
	to = launcher.Version{Flavour: of.Flavour, Version: of.Version}
	return to, of.Version != "" && has.Version != "" && to.Flavour == has.Flavour &&
		!has.Is(to.Flavour, to.Version) && launcher.CompareVersions(to.Version, has.Version) > 0
}

// recordUpgradeBackup records the backup before an upgrade, whose id it puts into the request.
func recordUpgradeBackup(tx *store.Tx, plans plan.Set, i store.Instance, r *engine.Request) {
	if r.Version == "" {
		return
	}
	_, r.BackupID = backups.Insert(tx, plans, i, beforeUpgrade)
}

// upgradeSteps are the steps of an update that upgrades the server, and those that undo it. The backup stays once it
// is complete. The launcher compares what the server has before and afterwards; see launcher.Upgrader.
func (is *Instances) upgradeSteps(i store.Instance, r engine.Request) (before, after, cleanup []task.Step) {
	if r.Version == "" {
		return nil, nil, nil
	}
	step := func(name, progress string,
		do func(ctx context.Context, i store.Instance, size fleet.Size, report, works func(string)) error) task.Step {
		return task.Step{Name: name, Progress: progress, Timeout: upgradeTimeout,
			Do: is.WithLauncher(r.PlanID, "Upgrade it again later.",
				func(ctx context.Context, size fleet.Size, report, works func(string)) error {
					size.Version = r.Version
					return do(ctx, i, size, report, works)
				})}
	}
	if r.BackupID != "" {
		before, cleanup = is.backups.First(i, r.BackupID)
		// An earlier upgrade may have left it stopped.
		before = append([]task.Step{step("ready", "Checking that the server runs", is.Fleet.RevertUpgrade)}, before...)
	}
	after = []task.Step{step("upgrade", "Upgrading the server", is.Fleet.Upgrade)}
	revert := step("revert", "Putting the earlier data back", is.Fleet.RevertUpgrade)
	return before, after, append([]task.Step{revert}, cleanup...)
}

// ErrNoUpgrade is returned by Upgrade if an instance needs none, or if its plan has no version for it.
var ErrNoUpgrade = errors.New("cannot be upgraded")

// Upgrade records an update that upgrades the server of an instance to the version that its plan wants, for any broker.
// It is for platforms that do not ask for it themselves. plans have the versions that the launchers offer. backups says
// that the brokers have an object store. The errors are those of engine.Record, and ErrNoUpgrade with the
// reason.
func Upgrade(ctx context.Context, s *store.Store, plans plan.Set, backups bool,
	id string) (recorded store.Task, err error) {
	record := func(tx *store.Tx, i store.Instance) (store.NewTask, error) {
		to := plans.Of(i.PlanID, i.ServiceID, plan.Kind(i.Location.Kind))
		version, err := upgradeTo(i, to)
		switch {
		case err != nil:
			return store.NewTask{}, fmt.Errorf("%w: %w", ErrNoUpgrade, err)
		case version == "" && i.MaintenanceVersion == to.MaintenanceVersion:
			return store.NewTask{}, fmt.Errorf("%w: it has the version of its plan", ErrNoUpgrade)
		}
		r := engine.Request{Async: true, PlanID: i.PlanID, MaintenanceVersion: to.MaintenanceVersion, Version: version}
		if backups {
			recordUpgradeBackup(tx, plans, i, &r)
		}
		return store.NewTask{InstanceID: id, Kind: store.Update, PlanID: i.PlanID, Request: r.JSON(),
			Description: "Upgrading the server"}, nil
	}
	if recorded, err = engine.Record(ctx, s, id, engine.Beside{}, record); err != nil {
		return recorded, fmt.Errorf("record the upgrade of instance %q: %w", id, err)
	}
	return recorded, nil
}
