package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"mysql-broker/broker/catalog"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/backup/objectstore"
	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// Check is one thing that the configuration names.
type Check struct {
	What string
	Err  error // what is wrong and what to do, nil if it works
}

// BeforeStart tries everything that cfg names as a broker would use it, so that a mistake is found before somebody
// creates an instance. What it writes to try, it deletes. PostgreSQL may be empty.
func BeforeStart(ctx context.Context, cfg config.Config, c *catalog.Catalog, log *slog.Logger) []Check {
	var checks []Check
	check := func(what string, err error) { checks = append(checks, Check{what, err}) }
	check("PostgreSQL", store.CheckDatabase(ctx, cfg.PostgresURL))
	servers, err := shared.Open(cfg.Shared, []byte("no lock is taken"))
	if err != nil {
		return append(checks, Check{"shared servers", err})
	}
	defer servers.Close()
	for _, server := range servers.All() {
		check("shared server "+server.Name(), server.Check(ctx))
	}
	if len(cfg.Launchers) > 0 {
		check("launchers", checkLaunchers(ctx, cfg, c, servers, log))
	}
	if cfg.Backups.Configured() {
		objects, err := cfg.Backups.Open()
		if err == nil {
			err = objectstore.Probe(ctx, objects)
		}
		check("object store", err)
	}
	if hub, err := cfg.CredHub.Open(); err != nil {
		check("CredHub", err)
	} else if hub != nil {
		check("CredHub", hub.CheckDeleting(ctx, hub.Path()))
		hub.Close()
	}
	if cfg.TLS != (config.TLS{}) {
		check("HTTPS certificate", checkCertificate(cfg.TLS))
	}
	listener, err := listenOn(cfg)
	if err == nil {
		err = listener.Close()
	}
	check("port "+strconv.Itoa(cfg.Port), err)
	check("memory limit", checkMemory(cfg.MemoryLimit))
	return checks
}

func listenOn(cfg config.Config) (net.Listener, error) {
	address := net.JoinHostPort(cfg.Bind, strconv.Itoa(cfg.Port))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s; set ADDRESS or PORT to another one: %w", address, err)
	}
	return listener, nil
}

// checkLaunchers also checks that the launchers can run the servers of all plans.
func checkLaunchers(ctx context.Context, cfg config.Config, c *catalog.Catalog, servers *shared.Servers,
	log *slog.Logger) error {
	all, closeAll, err := openLaunchers(cfg.Launchers, passive(log))
	if err != nil {
		return err
	}
	defer closeAll()
	f := fleet.New(fleet.Config{Shared: servers, Launchers: all})
	if _, err := WithVersions(c, f); err != nil {
		return err
	}
	var errs []error
	for _, finding := range doctor.New(doctor.Config{Plans: c.Plans(), Fleet: f}).CheckLaunchers(ctx) {
		errs = append(errs, fmt.Errorf("%s %s: %s", finding.Kind, finding.Name, finding.ToDo))
	}
	return errors.Join(errs...)
}

func checkCertificate(files config.TLS) error {
	pair, err := files.Load()
	if err != nil {
		return err
	}
	if ends := pair.Leaf.NotAfter; time.Now().After(ends) {
		return fmt.Errorf("it expired on %s; renew the file of TLS_CERTIFICATE", ends.UTC().Format(time.DateOnly))
	}
	return nil
}

// leastMemory is what a broker needs in bytes to copy one table at a time, of what it may use: see package memory.
const leastMemory = 128 << 20 / 10 * 9

// checkMemory takes 0 for no limit.
func checkMemory(limit int64) error {
	if 0 < limit && limit < leastMemory {
		return fmt.Errorf("the broker may use %d MiB; give it 128 MiB, or 256 to copy databases", limit>>20)
	}
	return nil
}
