// Package kubernetes is the launcher that runs dedicated servers as pods of a Kubernetes cluster, wherever the broker
// itself runs. All servers are in one namespace. The broker needs a Role there, and no other right.
//
// A server is four objects of one name:
//
//	Secret                  its settings, keys and state; owner of the others
//	PersistentVolumeClaim   its data
//	Service                 its address
//	StatefulSet             its one pod: at most one mysqld runs on the data, even after a node is lost
//
// The Secret is the fence. The other objects name it as their owner, with its UID. So if a broker pauses in the middle
// of a launch while another one destroys the server, the cluster's garbage collector removes what the first one creates
// later. To destroy a server is to delete its Secret; the servers are the Secrets with the broker's labels.
//
// An annotation of the Secret records the desired state of the server (see state). The launcher reads the actual state
// from the API server. The cluster restarts servers that end.
package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/periodic"
)

// Config says how servers run. A zero value stands for the default in its comment.
type Config struct {
	Credentials api.Credentials
	Namespace   string  // of all servers, and of nothing else
	Images      []Image // to choose from; the default is the newest of the first one's flavour
	Service     Access  // how applications reach servers; InCluster
	Host        string  // name or address of the nodes, for NodePort

	// StorageClass is that of the servers' volumes; "" for the cluster's default.
	StorageClass string

	// User is the number of the user and group that mysqld runs as and that own the volumes. With 0, the cluster chooses,
	// as OpenShift requires.
	User int

	// PlaceTimeout is how long a new server may wait for a node with room; 5 minutes.
	PlaceTimeout time.Duration

	// LaunchTimeout is how long a new server may take after that, including the download of its image; 10 minutes.
	LaunchTimeout time.Duration

	// RenewInterval is how often the launcher checks certificates; 10 seconds.
	RenewInterval time.Duration

	// WatchPause is the minimum time between two lists of all pods; each watch starts with one. 10 seconds.
	WatchPause time.Duration

	launcher.Options

	name func(variable string) string // what operators call it
}

// Image is a container image of one version of mysqld.
type Image struct {
	Flavour string // mysqld.MySQL or mysqld.MariaDB
	Version string // "9.7" or "9.7.4"
	Name    string // best with a digest, so that a server has the same image on every node
}

// Access is how applications reach servers.
type Access string

// Ways to reach servers: from pods of the same cluster only, at a port of each node, or by a load balancer for each.
const (
	InCluster    Access = "cluster"
	NodePort     Access = "node-port"
	LoadBalancer Access = "load-balancer"
)

// Launcher is a launcher.Launcher. If its options say that it supervises, it renews certificates until it is closed.
type Launcher struct {
	cfg     Config
	secrets secrets
	run     *runner
	watch   *watch

	stop       context.CancelFunc // ends the background work; nil if there is none
	background sync.WaitGroup
}

var (
	_ launcher.Observer = (*Launcher)(nil)
	_ launcher.Checker  = (*Launcher)(nil)
	_ launcher.Upgrader = (*Launcher)(nil)
)

// New returns a launcher. It makes no connection before it returns.
func New(cfg Config) (*Launcher, error) {
	cfg = cfg.withDefaults()
	api, err := cfg.Credentials.Client(cfg.Namespace)
	if err != nil {
		return nil, fmt.Errorf("kubernetes launcher: %w", err)
	}
	l := &Launcher{cfg: cfg, secrets: secrets{api}, run: &runner{objects: objects{secrets{api}, cfg}},
		watch: &watch{secrets: secrets{api}, pause: cfg.WatchPause, log: cfg.Logger, begun: make(chan struct{})}}
	if cfg.Supervise {
		l.supervise()
	}
	return l, nil
}

func (c Config) withDefaults() Config {
	c.Service = cmp.Or(c.Service, InCluster)
	c.PlaceTimeout = cmp.Or(c.PlaceTimeout, 5*time.Minute)
	c.LaunchTimeout = cmp.Or(c.LaunchTimeout, 10*time.Minute)
	c.WatchPause = cmp.Or(c.WatchPause, 10*time.Second)
	c.RenewInterval = cmp.Or(c.RenewInterval, 10*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// rightsInterval is how often the rights of the broker are checked until none is missing.
const rightsInterval = 30 * time.Second

// supervise starts the launcher's background work, which Close stops.
func (l *Launcher) supervise() {
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	l.background.Go(func() {
		ctx, checked := context.WithCancel(ctx)
		defer checked()
		status := &periodic.Status{What: "checking what the broker may do in Kubernetes", Level: slog.LevelError,
			Log: l.cfg.Logger, EachError: true}
		periodic.Run(ctx, periodic.Schedule{Every: rightsInterval}, status, func(ctx context.Context) error {
			missing, err := l.MissingRights(ctx)
			if missing != "" {
				err = errors.New(missing)
			}
			if err == nil {
				checked()
			}
			return err
		})
	})
	l.background.Go(func() {
		status := &periodic.Status{What: "watching the servers' pods", Log: l.cfg.Logger}
		periodic.Run(ctx, periodic.Schedule{Every: l.cfg.WatchPause}, status, l.watch.run)
	})
	r := &renewal{secrets: l.secrets, cfg: l.cfg, due: map[string]bool{},
		status: periodic.Servers{Status: periodic.Status{What: "renewing a server's certificate", Level: slog.LevelError,
			Log: l.cfg.Logger}}}
	status := &periodic.Status{What: "renewing the servers' certificates", Level: slog.LevelError, Log: l.cfg.Logger}
	l.background.Go(func() {
		periodic.Run(ctx, periodic.Schedule{Every: l.cfg.RenewInterval, Rest: 1}, status, r.run)
	})
}

// Close implements launcher.Launcher.
func (l *Launcher) Close() {
	if l.stop != nil {
		l.stop()
	}
	l.background.Wait()
	l.secrets.api.Close()
}

// Endpoint implements launcher.Launcher.
func (l *Launcher) Endpoint(ctx context.Context, id string) (launcher.Endpoint, error) {
	s, err := l.secrets.find(ctx, id)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	if s.state.Phase != phaseReady && s.state.Phase != phaseUpgrading {
		return launcher.Endpoint{}, launcher.ErrNotFound
	}
	if len(s.secret.Data[caFile]) == 0 { // it would seem to have no TLS
		return launcher.Endpoint{}, fmt.Errorf("server %s: somebody has removed %s from its Secret %s; the next plan "+
			"change or upgrade of the instance puts it back", s.id, caFile, s.name)
	}
	return s.endpoint(), nil
}

// List implements launcher.Launcher.
func (l *Launcher) List(ctx context.Context) ([]string, error) {
	ids := []string{}
	err := l.secrets.each(ctx, func(id string, _ api.Metadata) { ids = append(ids, id) })
	return ids, err
}

// SignedBy implements launcher.Launcher.
func (l *Launcher) SignedBy(ctx context.Context, ca []byte) (ids []string, err error) {
	fingerprint, err := fingerprintOf(ca)
	if err != nil {
		return nil, err
	}
	err = l.secrets.each(ctx, func(id string, m api.Metadata) {
		if m.Annotations[caAnnotation] == fingerprint && !isSuspended(m) {
			ids = append(ids, id)
		}
	})
	return ids, err
}

// Keep implements launcher.Launcher.
func (l *Launcher) Keep(ctx context.Context, id string) error {
	s, err := l.secrets.find(ctx, id)
	if err != nil {
		return fmt.Errorf("server %s: %w", id, err)
	}
	if s.kept() {
		return nil
	}
	return l.secrets.change(ctx, s, func(s *server) { s.secret.Metadata.Annotations[keptAnnotation] = "true" })
}

// ChangeAdminPassword implements launcher.Launcher. When a server starts, its init file creates the account if it is
// missing, and does not change its password.
func (l *Launcher) ChangeAdminPassword(ctx context.Context, id, next string, change func(context.Context) error) error {
	s, err := l.secrets.find(ctx, id)
	if err == nil && s.state.Phase != phaseReady {
		err = launcher.ErrNotFound
	}
	if err != nil {
		return err
	}
	if err := mysqld.CheckAdminPassword(next); err != nil {
		return fmt.Errorf("server %s: %w", id, err)
	}
	if err := change(ctx); err != nil {
		return err
	}
	return l.secrets.change(ctx, s, func(s *server) { s.writeInit(next) })
}
