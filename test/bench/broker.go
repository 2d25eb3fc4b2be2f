package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"mysql-broker/broker/catalog"
	"mysql-broker/store"
)

// Credentials of every broker measured.
const (
	username = "platform"
	password = "correct-horse-battery"
)

// broker is a running one.
type broker struct {
	addr    string // host:port
	pid     int
	log     string        // path
	started time.Duration // from the start of the process until it logged that it is ready
	cmd     *exec.Cmd
	exited  <-chan struct{}
}

var databases atomic.Int32

// newDatabase creates an empty PostgreSQL database and returns its URL. It is removed with the cluster.
func (b *bench) newDatabase(ctx context.Context) (string, error) {
	admin, err := pgx.Connect(ctx, b.postgres.URL())
	if err != nil {
		return "", err
	}
	defer admin.Close(ctx)
	name := fmt.Sprintf("bench_%d", databases.Add(1))
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	return strings.Replace(b.postgres.URL(), "/postgres?", "/"+name+"?", 1), nil
}

// environment is what a broker needs to serve with a new PostgreSQL database and one shared server. A section may add
// to it, LAUNCHER for instance.
func (b *bench) environment(ctx context.Context, s server) (map[string]string, error) {
	keyset, err := store.NewKeyset()
	if err != nil {
		return nil, err
	}
	shared, err := json.Marshal([]map[string]any{{"name": "shared-1", "ca_certificate": s.CA,
		"uri": fmt.Sprintf("mysql://%s:%s@%s:%d/", s.BrokerUser, s.BrokerPassword, s.Host, s.Port)}})
	if err != nil {
		return nil, err
	}
	database, err := b.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"PORT":              "0",
		"BROKER_USERNAME":   username,
		"BROKER_PASSWORD":   password,
		"DATABASE_URL":      database,
		"ENCRYPTION_KEYSET": keyset,
		"MYSQL_SERVERS":     string(shared),
		"CATALOG":           b.options.catalog,
		"PATH":              os.Getenv("PATH"),
	}, nil
}

// startBroker runs `serve` with nothing but this environment, and returns when it is ready.
func (b *bench) startBroker(ctx context.Context, environment map[string]string) (*broker, error) {
	cmd := exec.Command(b.options.broker, "serve")
	cmd.Dir = b.dir
	return b.launch(ctx, cmd, environment)
}

// launch starts a command that serves like a broker, with the environment in addition to its own, and returns when it
// is ready. Its log goes to a file, as it would to a collector. It ends with the bench, or with stop.
func (b *bench) launch(ctx context.Context, cmd *exec.Cmd, environment map[string]string) (*broker, error) {
	log, err := os.CreateTemp(b.dir, filepath.Base(cmd.Path)+"-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	r := &broker{log: log.Name(), cmd: cmd}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	for name, value := range environment {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	since := time.Now()
	if r.exited, err = b.supervise(cmd); err != nil {
		return nil, err
	}
	r.pid = cmd.Process.Pid
	if r.addr, err = r.awaitReady(ctx); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd, err)
	}
	r.started = time.Since(since)
	return r, nil
}

// awaitReady returns the address that the broker says it listens on.
func (r *broker) awaitReady(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		log, err := os.ReadFile(r.log)
		if err != nil {
			return "", err
		}
		for line := range bytes.Lines(log) {
			var ready struct{ Msg, Address string }
			if json.Unmarshal(line, &ready) == nil && ready.Msg == "ready" {
				_, port, _ := strings.Cut(ready.Address, "]:") // it listens on all addresses
				return "127.0.0.1:" + port, nil
			}
		}
		select {
		case <-r.exited:
			return "", fmt.Errorf("it ended; its log:\n%s", log)
		case <-ctx.Done():
			return "", errors.Join(errors.New("it is not ready"), ctx.Err())
		case <-tick.C:
		}
	}
}

// stop stops the broker as a platform does.
func (r *broker) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	return terminate(ctx, r.cmd, r.exited)
}

// plan finds the ids of a plan in the catalog.
func (b *bench) plan(name string) (serviceID, planID string, err error) {
	c, err := catalog.Load(b.options.catalog)
	if err != nil {
		return "", "", err
	}
	for _, p := range c.Plans() {
		if p.Name == name {
			return p.ServiceID, p.ID, nil
		}
	}
	return "", "", fmt.Errorf("%s has no plan %q", filepath.Base(b.options.catalog), name)
}
