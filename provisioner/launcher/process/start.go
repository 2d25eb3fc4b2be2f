package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// probeInterval is how often a server that is starting is asked whether it is up. It takes 0.1 to 1 s as a rule.
const probeInterval = 25 * time.Millisecond

// errExited is returned for a server that ended instead of coming up.
var errExited = errors.New("mysqld ended as it started")

// start runs the server of an instance that does not run, whose lock the caller holds.
func (l *Launcher) start(inst instance, st state, options ...string) (*server, error) {
	if st.Flavour != l.cfg.Binary.Flavour {
		return nil, fmt.Errorf("server %s: its data are of %s, which %s cannot read",
			inst.id, st.Flavour, l.cfg.Binary.Path)
	}
	if err := replaceFile(inst.settingsFile(), l.settings(inst, st), 0o644); err != nil {
		return nil, fmt.Errorf("server %s: settings: %w", inst.id, err)
	}
	if err := removeStaleSocket(inst); err != nil {
		return nil, fmt.Errorf("server %s: %w", inst.id, err)
	}
	log, err := os.OpenFile(inst.logFile(), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("server %s: log: %w", inst.id, err)
	}
	defer log.Close()
	cmd := exec.Command(l.cfg.Binary.Path, append([]string{settingsOption(inst)}, options...)...)
	cmd.Dir = inst.dir
	cmd.Env = serverEnvironment()
	cmd.Stdout, cmd.Stderr = log, log // a file, because a pipe would break with the broker
	cmd.SysProcAttr = l.owner.attributes()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("server %s: %w", inst.id, err)
	}
	return adopt(cmd)
}

// adopt takes hold of a child, and reaps it when it ends.
func adopt(cmd *exec.Cmd) (*server, error) {
	s, err := openServer(cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	reaped, err := openServer(cmd.Process.Pid)
	if err != nil {
		s.close()
		return nil, err
	}
	go func() {
		defer reaped.close()
		_ = reaped.wait(context.Background()) // without the thread that cmd.Wait would block
		_ = cmd.Wait()
	}()
	return s, nil
}

// serverEnvironment keeps the broker's secrets from the servers.
func serverEnvironment() []string {
	return []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
}

// removeStaleSocket removes what a killed server left. MySQL would refuse to start while the pid in the socket's lock
// file belongs to any process of the same user.
func removeStaleSocket(inst instance) error {
	for _, name := range []string{"mysqld.sock", "mysqld.sock.lock"} {
		if err := os.Remove(filepath.Join(inst.dataDir(), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("stale socket: %w", err)
		}
	}
	return nil
}

// awaitUp returns when a server that was started answers logins.
func (l *Launcher) awaitUp(ctx context.Context, inst instance, s *server) error {
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		if s.exited() {
			return fmt.Errorf("server %s: %w: %s", inst.id, errExited, logTail(inst))
		}
		up, err := probe(ctx, inst)
		if up || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("server %s: wait until it is up: %w", inst.id, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
