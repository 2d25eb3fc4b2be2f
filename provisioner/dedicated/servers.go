// Package dedicated makes instances that are a server of their own, wherever a launcher runs it.
package dedicated

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
)

// adminUser is the broker's account on every dedicated server.
const adminUser = "broker_admin"

// checkAccount logs in once while a server is being provisioned, and is dropped again.
const checkAccount = "broker_check"

// ErrNoLauncher is for whoever needs dedicated servers and has none.
var ErrNoLauncher = errors.New("no launcher is configured for dedicated servers")

// Servers are the dedicated servers behind one launcher.
type Servers struct {
	launcher launcher.Launcher
	fenceKey []byte
}

// New returns the servers of a launcher. fenceKey is for mysqladmin.Config.
func New(l launcher.Launcher, fenceKey []byte) *Servers {
	return &Servers{launcher: l, fenceKey: fenceKey}
}

// Size is what a plan gives to a server, in MiB.
type Size struct {
	MemoryMB  int
	StorageMB int
}

func spec(id, adminPassword string, size Size) launcher.Spec {
	return launcher.Spec{ID: id, MemoryMB: size.MemoryMB, StorageMB: size.StorageMB,
		AdminUser: adminUser, AdminPassword: adminPassword}
}

// Launch starts the server.
func (s *Servers) Launch(ctx context.Context, id, adminPassword string, size Size, report func(string)) error {
	if _, err := s.launcher.Launch(ctx, spec(id, adminPassword, size), report); err != nil {
		return fmt.Errorf("launch the server %s: %w", id, err)
	}
	return nil
}

// Resize restarts the server with another size.
func (s *Servers) Resize(ctx context.Context, id, adminPassword string, size Size, report func(string)) error {
	if _, err := s.launcher.Resize(ctx, spec(id, adminPassword, size), report); err != nil {
		return fmt.Errorf("resize the server %s: %w", id, err)
	}
	return nil
}

// Destroy removes the server with all data. A server that is not there is fine.
func (s *Servers) Destroy(ctx context.Context, id string) error {
	if err := s.launcher.Destroy(ctx, id); err != nil {
		return fmt.Errorf("destroy the server %s: %w", id, err)
	}
	return nil
}

// Keep records with the server that it is about to be reported ready.
func (s *Servers) Keep(ctx context.Context, id string) error {
	if err := s.launcher.Keep(ctx, id); err != nil {
		return fmt.Errorf("keep the server %s: %w", id, err)
	}
	return nil
}

// DestroyUnused is Destroy for a server whose creation is undone. It returns launcher.ErrKept for one that was given to
// Keep, which may hold data.
func (s *Servers) DestroyUnused(ctx context.Context, id string) error {
	if err := s.launcher.DestroyUnused(ctx, id); err != nil {
		return fmt.Errorf("destroy the server %s: %w", id, err)
	}
	return nil
}

// Endpoint tells where applications reach the server.
func (s *Servers) Endpoint(ctx context.Context, id string) (launcher.Endpoint, error) {
	endpoint, err := s.launcher.Endpoint(ctx, id)
	if err != nil {
		return endpoint, fmt.Errorf("find the server %s: %w", id, err)
	}
	return endpoint, nil
}

// Open connects to the server as its administrator. Close what it returns.
func (s *Servers) Open(ctx context.Context, id, adminPassword string) (*mysqladmin.Server, error) {
	endpoint, err := s.Endpoint(ctx, id)
	if err != nil {
		return nil, err
	}
	cfg := login(id, endpoint, adminUser, adminPassword)
	cfg.FenceKey = s.fenceKey
	return mysqladmin.Open(cfg)
}

// Exec runs a statement, which must hold no secret, as the administrator of a server at that endpoint.
func Exec(ctx context.Context, id string, e launcher.Endpoint, adminPassword, statement string) error {
	return mysqladmin.Exec(ctx, login(id, e, adminUser, adminPassword), statement)
}

func login(name string, e launcher.Endpoint, user, password string) mysqladmin.Config {
	return mysqladmin.Config{Name: name, Addr: net.JoinHostPort(e.Host, strconv.Itoa(e.Port)),
		User: user, Password: password, CA: e.CACertificate, MaxConns: 4}
}

// CheckLogin proves that an account made just now can log in the way an application will: by the server's published
// address, over TLS where it has that, into its database. The account is dropped again.
func (s *Servers) CheckLogin(ctx context.Context, id, database, password string, admin *mysqladmin.Session) error {
	endpoint, err := s.Endpoint(ctx, id)
	if err != nil {
		return err
	}
	if err := admin.CreateAccount(ctx, mysqladmin.Account{Name: checkAccount, Password: password, Database: database,
		Role: plan.ReadOnly, MaxConnections: 1, RequireTLS: endpoint.CACertificate != nil}); err != nil {
		return fmt.Errorf("make an account to check the login with: %w", err)
	}
	if err := mysqladmin.CheckLogin(ctx, login(id, endpoint, checkAccount, password), database); err != nil {
		return fmt.Errorf("log in to the new server: %w", err)
	}
	return admin.DropAccount(ctx, checkAccount)
}
