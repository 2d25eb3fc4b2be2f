package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

const (
	// adminUser is the broker's account on every dedicated server.
	adminUser = "broker_admin"
	// checkAccount is an account that logs in once while a server is being provisioned, and is then dropped.
	checkAccount = "broker_check"
	// offerInterval is when another broker is to look whether it offers the version of an upgrade.
	offerInterval = 2 * time.Second
	// answerTimeout bounds how long Visit waits for the login.
	answerTimeout = 5 * time.Second
)

// Size is what a plan gives to a dedicated server; see launcher.Spec.
type Size struct {
	MemoryMB  int
	MilliCPU  int
	StorageMB int
	Placement *plan.Placement

	BinaryLogs bool // are kept, and archived

	Flavour, Version string // of a new server, or one that is upgraded; "" for the launcher's choice
}

func spec(i store.Instance, adminPassword string, size Size) launcher.Spec {
	return launcher.Spec{ID: i.Location.Server, Flavour: size.Flavour, Version: size.Version,
		MemoryMB: size.MemoryMB, MilliCPU: size.MilliCPU,
		StorageMB: size.StorageMB, Placement: size.Placement, BinaryLogs: size.BinaryLogs,
		Labels: map[string]string{"instance_id": i.ID, "plan_id": i.PlanID, "organization_guid": i.OrganizationGUID,
			"space_guid": i.SpaceGUID},
		AdminUser: adminUser, AdminPassword: adminPassword}
}

// dedicated runs fn, which may change a dedicated server, with its launcher: see atLauncher and Verified.
func (f *Fleet) dedicated(ctx context.Context, at store.Location, doing string,
	fn func(launcher.Launcher) error) error {
	return f.atLauncher(at, doing, func(l Launcher) error {
		if err := f.verifyLauncher(ctx, l); err != nil {
			return fmt.Errorf("compare PostgreSQL with the launcher %s: %w", l.Name, err)
		}
		return fn(l)
	})
}

// atLauncher runs fn with the launcher of a dedicated server. doing is the verb of the error. If this broker does not
// have the launcher, the task is left to another broker.
func (f *Fleet) atLauncher(at store.Location, doing string, fn func(Launcher) error) error {
	l, err := f.Launcher(at.Launcher)
	if err != nil {
		return task.RequeueElsewhere(fmt.Errorf("%s the server %s: %w", doing, at.Server, err))
	}
	if err := fn(l); err != nil {
		return fmt.Errorf("%s the server %s: %w", doing, at.Server, err)
	}
	return nil
}

// Launch starts an instance's dedicated server.
func (f *Fleet) Launch(ctx context.Context, i store.Instance, size Size, report func(string)) error {
	return f.dedicated(ctx, i.Location, "launch", func(l launcher.Launcher) error {
		e, err := l.Launch(ctx, spec(i, i.AdminPassword, size), report)
		return f.recorded(ctx, i.Location, e, err)
	})
}

// Resize restarts an instance's dedicated server with another size.
func (f *Fleet) Resize(ctx context.Context, i store.Instance, size Size, report func(string)) error {
	return WithAdminPassword(ctx, f.store, i, func(password string) error {
		return f.dedicated(ctx, i.Location, "resize", func(l launcher.Launcher) error {
			e, err := l.Resize(ctx, spec(i, password, size), report)
			return f.recorded(ctx, i.Location, e, err)
		})
	})
}

// Versions returns what the launcher of that name offers; nil if it offers no choice.
func (f *Fleet) Versions(name string) ([]launcher.Version, error) {
	l, err := f.Launcher(name)
	if err != nil {
		return nil, err
	}
	upgrader, ok := l.Launcher.(launcher.Upgrader)
	if !ok {
		return nil, nil
	}
	return upgrader.Versions(), nil
}

// Upgrade upgrades an instance's dedicated server to the version in size: see launcher.Upgrader.
func (f *Fleet) Upgrade(ctx context.Context, i store.Instance, size Size, report, works func(string)) error {
	return f.upgrading(ctx, i, size, "upgrade", func(l launcher.Upgrader, s launcher.Spec) (launcher.Endpoint, error) {
		offered := l.Versions()
		_, found := launcher.Newest(offered, s.Flavour, s.Version)
		replaced := slices.ContainsFunc(offered, func(v launcher.Version) bool { // by a later one, for all brokers
			return v.Flavour == s.Flavour && launcher.SameSeries(v.Version, s.Version) &&
				launcher.CompareVersions(v.Version, s.Version) > 0
		})
		if !found && !replaced { // a broker with another configuration has it
			wanted := launcher.Version{Flavour: s.Flavour, Version: s.Version}
			return launcher.Endpoint{}, fmt.Errorf("%s is wanted, and this broker's launcher offers %v: %w", wanted, offered,
				task.Pending(offerInterval, fmt.Sprintf("Waiting for a broker that offers %s", wanted)))
		}
		return l.Upgrade(ctx, s, report, works)
	})
}

// RevertUpgrade ends an upgrade that did not succeed: see launcher.Upgrader.
func (f *Fleet) RevertUpgrade(ctx context.Context, i store.Instance, size Size, report, works func(string)) error {
	return f.upgrading(ctx, i, size, "revert the upgrade of",
		func(l launcher.Upgrader, s launcher.Spec) (launcher.Endpoint, error) {
			return l.Revert(ctx, s, report, works)
		})
}

func (f *Fleet) upgrading(ctx context.Context, i store.Instance, size Size, doing string,
	do func(launcher.Upgrader, launcher.Spec) (launcher.Endpoint, error)) error {
	return WithAdminPassword(ctx, f.store, i, func(password string) error {
		return f.dedicated(ctx, i.Location, doing, func(l launcher.Launcher) error {
			upgrader, ok := l.(Launcher).Launcher.(launcher.Upgrader)
			if !ok {
				return task.RequeueElsewhere(errors.New("this broker's launcher cannot upgrade servers"))
			}
			e, err := do(upgrader, spec(i, password, size))
			return f.recorded(ctx, i.Location, e, err)
		})
	})
}

// Complete records which version an instance's dedicated server reports, and loads the named time zones unless the
// template or the image that the server was made of had them.
func (f *Fleet) Complete(ctx context.Context, i store.Instance) error {
	return f.AsAdmin(ctx, i, func(admin *mysqladmin.Server) error {
		reported, err := admin.Flavour(ctx)
		if err != nil {
			return err
		}
		if err := admin.Setup.LoadTimeZones(ctx); err != nil {
			return err
		}
		return f.RecordVersion(ctx, i, reported)
	})
}

// RecordVersion records which version an instance's dedicated server reports, unless that is recorded.
func (f *Fleet) RecordVersion(ctx context.Context, i store.Instance, reported mysqladmin.Flavour) error {
	name, version := strings.ToLower(reported.Name), reported.Number()
	if name == i.ServerFlavour && version == i.ServerVersion {
		return nil
	}
	if err := f.store.Instances.RecordVersion(ctx, i.Location, name, version); err != nil {
		return fmt.Errorf("record the version of the server %s: %w", i.Location.Server, err)
	}
	return nil
}

// Destroy removes a dedicated server with all its data. It is no error if there is no such server.
func (f *Fleet) Destroy(ctx context.Context, at store.Location) error {
	if err := f.forgetEndpoint(ctx, at); err != nil {
		return err
	}
	return f.dedicated(ctx, at, "destroy", func(l launcher.Launcher) error { return l.Destroy(ctx, at.Server) })
}

// Suspend stops a dedicated server and keeps its data; Launch starts it again.
func (f *Fleet) Suspend(ctx context.Context, at store.Location) error {
	if err := f.forgetEndpoint(ctx, at); err != nil {
		return err
	}
	return f.dedicated(ctx, at, "suspend", func(l launcher.Launcher) error { return l.Suspend(ctx, at.Server) })
}

// Keep records with a dedicated server that it is about to be reported ready.
func (f *Fleet) Keep(ctx context.Context, at store.Location) error {
	return f.dedicated(ctx, at, "keep", func(l launcher.Launcher) error { return l.Keep(ctx, at.Server) })
}

// DestroyUnused is Destroy for a server whose creation is undone. It returns launcher.ErrKept for a server for which
// Keep was called, because it may hold data.
func (f *Fleet) DestroyUnused(ctx context.Context, at store.Location) error {
	if err := f.forgetEndpoint(ctx, at); err != nil {
		return err
	}
	return f.dedicated(ctx, at, "destroy", func(l launcher.Launcher) error { return l.DestroyUnused(ctx, at.Server) })
}

// forgetEndpoint deletes the recorded endpoint of a server that is about to end: another server may listen there then.
func (f *Fleet) forgetEndpoint(ctx context.Context, at store.Location) error {
	if err := f.store.Instances.ForgetEndpoint(ctx, at); err != nil {
		return fmt.Errorf("delete the recorded endpoint of the server %s: %w", at.Server, err)
	}
	return nil
}

// recorded records the endpoint of a server that was launched or resized, unless that failed.
func (f *Fleet) recorded(ctx context.Context, at store.Location, e launcher.Endpoint, err error) error {
	if err != nil {
		return err
	}
	return RecordEndpoint(ctx, f.store, at, e)
}

// RecordEndpoint records where a dedicated server listens.
func RecordEndpoint(ctx context.Context, s *store.Store, at store.Location, e launcher.Endpoint) error {
	if err := s.Instances.RecordEndpoint(ctx, at, store.Endpoint(e)); err != nil {
		return fmt.Errorf("record the endpoint of the server %s: %w", at.Server, err)
	}
	return nil
}

// recordedEndpoint returns where an instance's dedicated server listens. If nothing is recorded, it asks the launcher
// and records the result.
func (f *Fleet) recordedEndpoint(ctx context.Context, i store.Instance) (launcher.Endpoint, error) {
	if i.Endpoint != nil {
		return launcher.Endpoint(*i.Endpoint), nil
	}
	e, err := f.launcherEndpoint(ctx, i.Location)
	return e, f.recorded(ctx, i.Location, e, err)
}

// launcherEndpoint asks its launcher where a dedicated server listens.
func (f *Fleet) launcherEndpoint(ctx context.Context, at store.Location) (e launcher.Endpoint, err error) {
	err = f.atLauncher(at, "find", func(l Launcher) (err error) {
		e, err = l.Endpoint(ctx, at.Server)
		return err
	})
	return e, err
}

// Open connects to a dedicated server as its administrator with that password, at the endpoint that its launcher
// returns. The caller closes the result.
func (f *Fleet) Open(ctx context.Context, at store.Location, adminPassword string) (*mysqladmin.Server, error) {
	e, err := f.launcherEndpoint(ctx, at)
	if err != nil {
		return nil, err
	}
	return f.open(at, e, adminPassword)
}

func (f *Fleet) open(at store.Location, e launcher.Endpoint, adminPassword string) (*mysqladmin.Server, error) {
	cfg := f.adminLogin(at.Server, e, adminPassword)
	cfg.SessionLockKey = f.lockKey
	if l, err := f.Launcher(at.Launcher); err == nil {
		if roomer, ok := l.Launcher.(launcher.Roomer); ok {
			cfg.Room = roomer.Room
		}
	}
	return mysqladmin.Open(cfg)
}

// Visit is AsAdmin, but returns an error if the server does not accept the login within answerTimeout.
func (f *Fleet) Visit(ctx context.Context, i store.Instance, fn func(*mysqladmin.Server) error) error {
	return f.AsAdmin(ctx, i, func(admin *mysqladmin.Server) error {
		limited, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		if err := admin.Ping(limited); err != nil {
			return err
		}
		return fn(admin)
	})
}

// Exec runs a statement as the administrator of a dedicated server that listens there. The statement must not contain a
// secret.
func Exec(ctx context.Context, s *store.Store, at store.Location, e launcher.Endpoint, statement string) error {
	i, err := s.Instances.At(ctx, at)
	if err != nil {
		return fmt.Errorf("read the instance of the server %s: %w", at.Server, err)
	}
	return WithAdminPassword(ctx, s, i, func(password string) error {
		return mysqladmin.Exec(ctx, new(Fleet).adminLogin(at.Server, e, password), statement)
	})
}

// adminLogin returns the configuration of the broker's login.
func (f *Fleet) adminLogin(name string, e launcher.Endpoint, password string) mysqladmin.Config {
	return mysqladmin.Config{Name: name, Addr: e.AdminAddress(), ServerName: e.Host,
		User: adminUser, Password: password, CA: e.CACertificate, MaxConns: 4, Dial: f.dial}
}

// CheckLogin checks that a new account can log in as an application does: at the dedicated server's published address,
// over TLS if it has that, and into its database. It creates the account for this and drops it afterwards.
func (f *Fleet) CheckLogin(ctx context.Context, at store.Location, database, password string,
	admin *mysqladmin.Session) error {
	e, err := f.launcherEndpoint(ctx, at)
	if err != nil {
		return err
	}
	if err := admin.Accounts.Create(ctx, mysqladmin.Account{Name: checkAccount, Password: password, Database: database,
		Role: plan.ReadOnly, MaxConnections: 1, RequireTLS: e.CACertificate != nil}); err != nil {
		return fmt.Errorf("make an account to check the login with: %w", err)
	}
	if err := mysqladmin.CheckLogin(ctx, mysqladmin.Config{Name: at.Server,
		Addr: net.JoinHostPort(e.Host, strconv.Itoa(e.Port)), User: checkAccount, Password: password, CA: e.CACertificate,
		MaxConns: 1, Dial: f.dial}, database); err != nil {
		return fmt.Errorf("log in to the new server: %w", err)
	}
	return admin.Accounts.Drop(ctx, checkAccount)
}
