// Package dev runs the broker with everything it needs on one machine, to try it and to work on it.
package dev

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"mysql-broker/broker/catalog"
	"mysql-broker/cmd/mysql-broker/app"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/cmd/mysql-broker/dev/pgcluster"
	"mysql-broker/provisioner/launcher"
)

const (
	sharedName     = "dev"
	sharedAdmin    = "broker_admin"
	sharedMemoryMB = 512
	stopTime       = 30 * time.Second
)

// Config is what may be chosen; zero values mean the defaults that `dev --help` names.
type Config struct {
	Dir         string
	Port        int
	Username    string
	Password    string
	Mysqld      string
	CatalogPath string
	Logger      *slog.Logger
	Out         io.Writer
}

// Run starts everything, prints how to use it, and stops everything when ctx ends.
func Run(ctx context.Context, cfg Config) (err error) {
	binary, err := findPrograms(cfg.Mysqld)
	if err != nil {
		return err
	}
	dir, err := stateDir(cfg.Dir)
	if err != nil {
		return err
	}
	if cfg.CatalogPath == "" {
		if cfg.CatalogPath, err = trialCatalog(dir); err != nil {
			return err
		}
	}
	c, err := catalog.Load(cfg.CatalogPath)
	if err != nil {
		return err
	}
	secrets, err := loadSecrets(filepath.Join(dir, "secrets.json"))
	if err != nil {
		return err
	}
	secrets.Username = cmp.Or(cfg.Username, secrets.Username)
	secrets.Password = cmp.Or(cfg.Password, secrets.Password)
	fmt.Fprintf(cfg.Out, "Starting PostgreSQL in %s …\n", dir)

	var parts parts
	defer func() {
		if ctx.Err() != nil {
			err = nil // what failed as it started, failed because it was interrupted
		}
		err = errors.Join(err, parts.stop(cfg.Out))
	}()
	postgres, err := pgcluster.Start(ctx, pgcluster.Config{Dir: filepath.Join(dir, "postgres"), Durable: true,
		Logger: cfg.Logger})
	if err != nil {
		if errors.Is(err, pgcluster.ErrTaken) {
			return fmt.Errorf("another `mysql-broker dev` runs in %s; set MYSQL_BROKER_DEV_DIR and PORT to run one beside it",
				dir)
		}
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	parts.started(postgres.Stop)
	fmt.Fprintf(cfg.Out, "Starting a shared server, %s %s …\n", binary.Flavour, binary.Version)
	sharedServers, server, err := startShared(ctx, cfg, filepath.Join(dir, "shared"), binary, secrets)
	if sharedServers != nil {
		parts.started(sharedServers.StopAll)
	}
	if err != nil {
		return fmt.Errorf("start the shared server: %w", err)
	}
	fmt.Fprintln(cfg.Out, "Starting the broker, and dedicated servers of earlier runs …")
	variables, err := variablesIn(dir, cfg.CatalogPath, map[string]string{"DATABASE_URL": postgres.URL(),
		"ENCRYPTION_KEYSET": secrets.Keyset, "MYSQL_SERVERS": server, "LAUNCHER_MYSQLD": binary.Path})
	if err != nil {
		return err
	}
	broker, err := startBroker(ctx, cfg, dir, secrets, variables, c, &parts)
	if err != nil {
		return err
	}
	if err := printUsage(cfg, urlOf(broker), dir, secrets); err != nil {
		return err
	}
	printLink(cfg.Out, broker.SignIn().Link())
	select {
	case <-ctx.Done():
		return nil
	case <-postgres.Done():
		return errors.New("PostgreSQL ended by itself; its log is in " + filepath.Join(dir, "postgres"))
	case err := <-broker.Failed():
		return err
	}
}

// parts stops what was started, the last first.
type parts []func(context.Context) error

func (p *parts) started(stop func(context.Context) error) { *p = append(*p, stop) }

// stop gives each part time of its own: the context of the run has ended by then.
func (p parts) stop(out io.Writer) (err error) {
	if len(p) > 0 {
		fmt.Fprintln(out, "\nStopping everything; the data stays.")
	}
	for _, stop := range slices.Backward(p) {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		err = errors.Join(err, stop(ctx))
		cancel()
	}
	return err
}

// startBroker starts the broker and the dedicated servers of earlier runs, and writes what commands need to find it.
// variables are those that the broker and the commands share.
func startBroker(ctx context.Context, cfg Config, dir string, s secrets, variables map[string]string,
	c *catalog.Catalog, p *parts) (*app.App, error) {
	own := map[string]string{"BROKER_USERNAME": s.Username, "BROKER_PASSWORD": s.Password, "ADDRESS": "127.0.0.1",
		"PORT": strconv.Itoa(cfg.Port)}
	configured, err := config.FromEnvironment(func(name string) string { return cmp.Or(own[name], variables[name]) })
	if err != nil {
		return nil, err
	}
	configured.SignIn.Announce = func(link string) { printLink(cfg.Out, link) }
	broker, err := app.Start(ctx, configured, c, cfg.Logger)
	if err != nil {
		return nil, err
	}
	for _, l := range stoppable(broker) {
		p.started(l.StopAll)
	}
	p.started(func(context.Context) error { broker.Close(); return nil })
	for _, l := range stoppable(broker) {
		if err := l.StartAll(ctx); err != nil {
			cfg.Logger.Warn("a dedicated server did not start; retrying", "error", err)
		}
	}
	if err := writeClientConfig(filepath.Join(dir, "client.json"), urlOf(broker), s); err != nil {
		return nil, err
	}
	return broker, writeEnvironment(dir, variables)
}

func urlOf(broker *app.App) string { return fmt.Sprintf("http://127.0.0.1:%d", broker.Port()) }

// stoppable are the broker's launchers whose servers can be stopped.
func stoppable(broker *app.App) (all []launcher.Stopper) {
	for _, l := range broker.Launchers() {
		if s, ok := l.Launcher.(launcher.Stopper); ok {
			all = append(all, s)
		}
	}
	return all
}

// writeClientConfig lets `mysql-broker client` find this broker without being told.
func writeClientConfig(path, url string, s secrets) error {
	raw, err := json.Marshal(map[string]string{"url": url, "username": s.Username, "password": s.Password,
		"names": filepath.Join(filepath.Dir(path), "names.json")})
	if err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o600)
}

// printLink says how to get into the dashboard.
func printLink(out io.Writer, link string) {
	fmt.Fprintf(out, "\nOpen the dashboard in a browser on this machine, once within 15 minutes:\n  %s\n", link)
}

// printUsage prints commands that work as they are in another terminal.
func printUsage(cfg Config, url, dir string, s secrets) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	here, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	find := "cd " + quoteIfNeeded(here)
	if cfg.Dir != "" {
		find = "export MYSQL_BROKER_DEV_DIR=" + quoteIfNeeded(dir)
	}
	command := "mysql-broker"
	if found, err := exec.LookPath(command); err != nil || found != program {
		command = quoteIfNeeded(program)
		if inside, err := filepath.Rel(here, program); err == nil && cfg.Dir == "" && filepath.IsLocal(inside) {
			command = quoteIfNeeded("./" + inside)
		}
	}
	fmt.Fprintf(cfg.Out, `
The broker is ready at %[1]s, with the catalog %[6]s.
  user name  %[2]s
  password   %[3]s

Try it from another terminal:
  %[4]s
  %[5]s client create-service shared-small db
  %[5]s client create-service-key db key
  %[5]s client update-service db -c '{"backup":"now"}'
  %[5]s instances
  curl -s -u %[7]s -H 'X-Broker-Api-Version: 2.17' %[1]s/v2/catalog

Ctrl-C stops everything and keeps the data.
`, url, s.Username, s.Password, find, command, cfg.CatalogPath, quote(s.Username+":"+s.Password))
	return nil
}
