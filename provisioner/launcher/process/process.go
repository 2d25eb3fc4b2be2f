// Package process is the launcher that runs dedicated servers as mysqld processes on the broker's own host.
//
// A server is a directory, and a process whose command line names that directory's settings file. What runs is found
// out from the kernel alone: from the process table and, while a server starts or exits, from a lock that its process
// holds. No record of it can become stale, and a server whose broker died right after starting it is still found. Each
// server runs in its own session, so that it outlives the broker.
//
// Under Config.Dir:
//
//	instances/ID/   one server, see serverDir
//	templates/      data directories initialised once for each flavour and version
//	trash/          destroyed servers, until their files are removed
//	notes/          notes of brokers, see WriteNote
//
// Several brokers on one host may share a Config.Dir. They lock directories themselves (flock), so that no lock file is
// left behind: instances/ID for changes to that server, instances/ID/tls by the server itself, instances for the choice
// of a port, templates while one is created, notes while a note or a record is written, and Dir by the broker that
// supervises.
package process

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process/cgroup"
	"mysql-broker/provisioner/launcher/process/files"
)

// Config says how servers are run. The defaults of zero values are named.
type Config struct {
	Dir         string          // state directory, made when missing; servers must be able to reach it
	Binary      mysqld.Binary   // the mysqld to run
	Others      []mysqld.Binary // more versions of that flavour; Open puts the newest of all into Binary
	Host        string          // as applications reach this host, for new servers; 127.0.0.1
	BindAddress string          // address the servers listen on, e.g. 0.0.0.0; 127.0.0.1
	PortMin     int             // first port that may be used; 13400
	PortMax     int             // last port that may be used; 13999

	controlGroups func() (*cgroup.Groups, error) // cgroup.Use, except in tests
	hangInterval  time.Duration                  // the constant, except in tests
	name          func(variable string) string   // full name of a variable; nil if not configured by variables

	// LaunchTimeout is how long a new server, which has no data yet, may take to come up; 2 minutes. It usually takes a
	// second. A server with data may have much to recover and gets more time.
	LaunchTimeout time.Duration

	launcher.Options
}

// Launcher is a launcher.Launcher.
type Launcher struct {
	notes
	run        *runner
	keys       *keys
	templates  templates
	supervisor *supervisor
}

var (
	_ launcher.Stopper  = (*Launcher)(nil)
	_ launcher.Upgrader = (*Launcher)(nil)
	_ launcher.Observer = (*Launcher)(nil)
)

// Open prepares the state directory. It starts servers that do not run only if the options have it supervise.
func Open(cfg Config) (*Launcher, error) {
	cfg = cfg.withDefaults()
	who, err := files.LookupOwner()
	if err != nil {
		return nil, err
	}
	at, err := makeStateDir(cfg.Dir, who)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	cfg.Dir = string(at)
	run := &runner{cfg: cfg, place: at, owner: who, startTimeout: startTimeout}
	if !cfg.UnlimitedMemory {
		run.groups, run.whyUngrouped = cfg.controlGroups()
	}
	l := &Launcher{notes: notes{at}, run: run, keys: &keys{cfg: cfg, owner: who}, templates: templates{at, who}}
	l.supervisor = &supervisor{run: run, keys: l.keys, stop: func() {}}
	if cfg.Supervise {
		if err := l.supervisor.begin(); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// makeStateDir creates the directory, which the servers' owner must be able to reach, and returns its path without
// symbolic links, because servers are identified by their paths.
func makeStateDir(dir string, who files.Owner) (at place, err error) {
	if dir, err = filepath.Abs(dir); err == nil {
		err = os.MkdirAll(dir, traversable)
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	at = place(dir)
	for _, part := range []string{at.serversDir(), at.templatesDir(), at.trashDir()} {
		if err == nil {
			err = os.MkdirAll(part, traversable)
		}
	}
	if err == nil {
		err = who.CheckReach(at.serversDir())
	}
	return at, err
}

// Close implements launcher.Launcher: it ends supervision.
func (l *Launcher) Close() {
	l.supervisor.stop()
	l.supervisor.running.Wait()
}

// Endpoint implements launcher.Launcher.
func (l *Launcher) Endpoint(_ context.Context, id string) (launcher.Endpoint, error) {
	sd, err := l.run.place.server(id)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	return l.run.endpointOf(sd)
}

// endpointOf returns where a server that was launched can be reached.
func (r *runner) endpointOf(sd serverDir) (launcher.Endpoint, error) {
	st, err := sd.loadState()
	if err != nil {
		return launcher.Endpoint{}, err
	}
	if st.Phase != phaseReady && st.Phase != phaseUpgrading {
		return launcher.Endpoint{}, launcher.ErrNotFound
	}
	return r.endpoint(sd, st)
}

// ChangeAdminPassword implements launcher.Launcher: it keeps no password.
func (l *Launcher) ChangeAdminPassword(ctx context.Context, id, _ string, change func(context.Context) error) error {
	if _, err := l.Endpoint(ctx, id); err != nil {
		return err
	}
	return change(ctx)
}

// List implements launcher.Launcher.
func (l *Launcher) List(context.Context) ([]string, error) { return l.run.place.list() }

func (r *runner) endpoint(sd serverDir, st state) (launcher.Endpoint, error) {
	ca, err := os.ReadFile(sd.caFile())
	if err != nil {
		return launcher.Endpoint{}, sd.explain(err)
	}
	return launcher.Endpoint{Host: cmp.Or(st.Host, r.cfg.Host), Port: st.Port, CACertificate: ca}, nil
}

func (c Config) withDefaults() Config {
	c.Host = cmp.Or(c.Host, "127.0.0.1")
	c.BindAddress = cmp.Or(c.BindAddress, "127.0.0.1")
	if c.PortMin == 0 && c.PortMax == 0 {
		c.PortMin, c.PortMax = 13400, 13999
	}
	all := append([]mysqld.Binary{c.Binary}, c.Others...)
	slices.SortStableFunc(all, func(a, b mysqld.Binary) int { return launcher.CompareVersions(b.Version, a.Version) })
	c.Binary, c.Others = all[0], all[1:]
	c.LaunchTimeout = cmp.Or(c.LaunchTimeout, launchTimeout)
	c.hangInterval = cmp.Or(c.hangInterval, hangInterval)
	if c.controlGroups == nil {
		c.controlGroups = func() (*cgroup.Groups, error) { return cgroup.Use("/proc/self") }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
