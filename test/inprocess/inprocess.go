// Package inprocess runs the operations of a broker in the test's own process, without HTTP, on servers that other tests
// use as well.
package inprocess

import (
	"context"
	"database/sql"
	"log/slog"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner"
	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/bindings"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
	"mysql-broker/test/audit"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// SharedName is the name of the shared server in testdrive.Environment.
const SharedName = "shared-1"

// Site is a broker without its HTTP side, and what it works on.
type Site struct {
	*testing.T
	Env      map[string]string
	Config   config.Config
	Store    *store.Store
	Launcher launcher.Stopper
	Fleet    *fleet.Fleet // with the shared servers that are configured
	Broker   *provisioner.Provisioner
	Root     *sql.DB // an administrator's connections to the shared server
}

// New makes a site that ends with the test, and removes what it has recorded on the shared server.
func New(t *testing.T, s servers.MySQL, env map[string]string, plans plan.Set) *Site {
	site := &Site{T: t, Env: env}
	var err error
	site.Config, err = config.FromEnvironment(func(name string) string { return env[name] })
	site.Must(err)
	site.Store, err = store.Open(t.Context(), site.Config.PostgresURL, site.Config.Keys)
	site.Must(err)
	t.Cleanup(site.Store.Close)
	dedicated, err := site.Config.Launchers[0].Open(launcher.Options{})
	site.Must(err)
	site.Launcher = dedicated.(launcher.Stopper)
	site.Fleet = site.FleetOf(site.OpenShared(site.Config.Shared...))
	var vault *backup.Vault
	objects, err := site.Config.Backups.Open()
	site.Must(err)
	if objects != nil {
		vault = &backup.Vault{Objects: objects, Keys: site.Config.Keys}
	}
	site.Broker = provisioner.New(provisioner.Config{Store: site.Store, Plans: plans, Fleet: site.Fleet, Backups: vault,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	t.Cleanup(site.Broker.Stop)
	site.Root = testdrive.Platform{Server: s}.Admin(t)
	t.Cleanup(site.removeAll)
	return site
}

// Must fails the test if there is an error.
func (s *Site) Must(err error) { require.NoError(s, err) }

// OpenShared opens shared servers until the test ends.
func (s *Site) OpenShared(configs ...shared.Config) *shared.Servers {
	all, err := shared.Open(configs, s.lockKey())
	s.Must(err)
	s.Cleanup(func() { s.Must(all.Close()) })
	return all
}

// FleetOf returns a fleet with these shared servers and the launcher of the site.
func (s *Site) FleetOf(all *shared.Servers) *fleet.Fleet {
	return fleet.New(fleet.Config{Store: s.Store, Shared: all, SessionLockKey: s.lockKey(),
		Launchers: map[string]launcher.Launcher{"process": s.Launcher}})
}

func (s *Site) lockKey() []byte {
	key, err := s.Store.Keys.SessionLockKey(s.Context())
	s.Must(err)
	return key
}

// removeAll removes everything that the test has recorded from the shared server.
func (s *Site) removeAll() {
	ctx := context.Background()
	s.Must(s.Store.Resources.Each(ctx, SharedName, func(some []store.Resource) (err error) {
		for _, r := range some {
			switch r.Kind {
			case store.DatabaseResource:
				_, err = s.Root.ExecContext(ctx, "DROP DATABASE IF EXISTS `"+r.Name+"`")
			case store.AccountResource:
				_, err = s.Root.ExecContext(ctx, "DROP USER IF EXISTS `"+r.Name+"`@'%'")
			}
			s.Must(err)
		}
		return nil
	}))
}

// InTx runs fn in a transaction.
func (s *Site) InTx(fn func(*store.Tx) error) { s.Must(s.Store.InTx(s.Context(), fn)) }

// Provision makes an instance and returns it as it is recorded.
func (s *Site) Provision(of plan.Plan) store.Instance { return s.ProvisionAs(uuid.NewString(), of) }

// ProvisionAs is Provision of an instance with this id.
func (s *Site) ProvisionAs(id string, of plan.Plan) store.Instance {
	_, err := s.Broker.Provision(s.Context(), engine.ProvisionRequest{InstanceID: id, Plan: of})
	s.Must(err)
	return s.Instance(id)
}

// Bind makes a binding, and returns its login.
func (s *Site) Bind(i store.Instance, id string, p plan.BindingParameters) testdrive.Credentials {
	c, _, err := s.Broker.Bind(s.Context(), bindings.BindRequest{InstanceID: i.ID, BindingID: id, ServiceID: i.ServiceID,
		Parameters: p})
	s.Must(err)
	return testdrive.Credentials{Credentials: audit.Credentials{Host: c.Host, Port: c.Port, Username: c.Account,
		Password: c.Password, Database: c.Database, CACertificate: string(c.CACertificate)}}
}

// Instance reads what is recorded of an instance.
func (s *Site) Instance(id string) store.Instance {
	i, err := s.Store.Instances.Get(s.Context(), id)
	s.Must(err)
	return i
}
