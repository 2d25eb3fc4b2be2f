package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process/cgroup"
	"mysql-broker/provisioner/launcher/process/files"
)

const (
	// A starting server is probed at growing intervals: a fiftieth of the time since the start, within these bounds. It
	// usually takes 0.1 to 1 s, or minutes to recover.
	minProbeInterval, maxProbeInterval = time.Millisecond, 50 * time.Millisecond

	// startTimeout is how long a server may take to come up, for example one that has much to recover after a crash.
	startTimeout = 10 * time.Minute

	// launchTimeout is the default of Config.LaunchTimeout. Six attempts at a launch then end within a quarter of an hour,
	// while a user may still be waiting.
	launchTimeout = 2 * time.Minute
)

var (
	// errExited is returned for a server that exited instead of coming up.
	errExited = errors.New("mysqld ended as it started")

	// errNotUp is returned for a server that was killed because it neither came up nor exited.
	errNotUp = errors.New("mysqld did not come up in time and was killed")
)

// runner starts and stops the servers of a directory.
type runner struct {
	cfg          Config
	place        place
	owner        files.Owner    // of the servers' processes and data
	groups       *cgroup.Groups // nil if servers have no control groups of their own
	whyUngrouped error          // why they have none
	startTimeout time.Duration  // the constant, except in tests
}

// start starts a server that does not run, with the program for its data. The caller holds its lock.
func (r *runner) start(ctx context.Context, sd serverDir, st state, options ...string) (*server, error) {
	b, err := r.programFor(sd, st)
	if err != nil {
		return nil, err
	}
	// Within a series, and on MySQL, the program upgrades the data, and older ones may refuse them afterwards.
	upgrades := st.Flavour == mysqld.MySQL || launcher.SameSeries(st.Version, b.Version)
	if st.Phase == phaseReady && st.Version != b.Version && upgrades {
		st.Version = b.Version
		if err := sd.saveState(st); err != nil && !saysDiskFull(err) {
			return nil, err
		}
	}
	return r.startProgram(ctx, sd, st, b, options...)
}

func (r *runner) startProgram(ctx context.Context, sd serverDir, st state, b mysqld.Binary,
	options ...string) (*server, error) {
	if err := r.cfg.writeSettings(sd, st, b); err != nil {
		return nil, fmt.Errorf("server %s: settings: %w", sd.id, err)
	}
	if err := removeStaleSocket(sd); err != nil {
		return nil, sd.explain(err)
	}
	log, err := os.OpenFile(sd.logFile(), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("server %s: log: %w", sd.id, err)
	}
	defer log.Close()
	lock, err := holdLock(ctx, sd.tlsDir()) // for findServer; a child that is being forked may still hold a copy
	if err != nil {
		return nil, sd.explain(err)
	}
	defer lock.Close()
	arguments := append([]string{settingsOption(sd)}, options...)
	group, err := r.groups.Open(sd.id, st.Flavour, st.MemoryMB)
	if err != nil { // a server limited by RLIMIT_DATA alone is better than none
		r.cfg.Logger.Warn("a server is started without a control group", "server", sd.id, "error", err)
	}
	cmd := exec.Command(b.Path, arguments...)
	if !r.cfg.UnlimitedMemory {
		cmd = limited(mysqld.DataLimitMB(st.Flavour, st.MemoryMB), group != nil, b.Path, arguments...)
	}
	cmd.Dir = sd.dir
	cmd.Env = serverEnvironment()
	cmd.Stdout, cmd.Stderr = log, log // a file, because a pipe would break with the broker
	cmd.ExtraFiles = []*os.File{lock} // the server keeps it open as long as it runs
	if group != nil {
		defer group.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, group)
	}
	cmd.SysProcAttr = r.owner.Attributes()
	if err := cmd.Start(); err != nil {
		return nil, sd.explain(err)
	}
	return adopt(cmd)
}

// writeSettings writes the settings file if its content differs, so that a server can be started on a full disk.
func (c Config) writeSettings(sd serverDir, st state, b mysqld.Binary) error {
	content := c.settings(sd, st, b)
	if present, err := os.ReadFile(sd.settingsFile()); err == nil && bytes.Equal(present, content) {
		return nil
	}
	return files.Replace(sd.settingsFile(), content, 0o644)
}

// adopt opens a child process, and reaps it when it exits. If it cannot open the process, it kills it.
func adopt(cmd *exec.Cmd) (*server, error) {
	s, err := openServer(cmd.Process.Pid)
	if err != nil {
		endChild(cmd)
		return nil, err
	}
	reaped, err := openServer(cmd.Process.Pid)
	if err != nil {
		s.close()
		endChild(cmd)
		return nil, err
	}
	go func() {
		defer reaped.close()
		_ = reaped.wait(context.Background()) // without the thread that cmd.Wait would block
		_ = cmd.Wait()
	}()
	return s, nil
}

// endChild kills and reaps a child. The ignored errors only say that it has exited already, or was killed.
func endChild(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// serverEnvironment keeps the broker's secrets from the servers.
func serverEnvironment() []string {
	return []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
}

// removeStaleSocket removes the socket of a killed server. MySQL would refuse to start while any process of the same
// user has the pid in the socket's lock file.
func removeStaleSocket(sd serverDir) error {
	for _, name := range []string{socketName, socketName + ".lock"} {
		if err := os.Remove(filepath.Join(sd.dataDir(), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("stale socket: %w", err)
		}
	}
	return nil
}

// awaitUp returns when a started server responds to logins. If it does not within limit, it is killed.
func awaitUp(ctx context.Context, sd serverDir, s *server, limit time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := pollUp(limited, sd, s)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return errors.Join(fmt.Errorf("server %s: %w: %s", sd.id, errNotUp, logTail(sd)), s.kill(ctx))
	}
	return err
}

func pollUp(ctx context.Context, sd serverDir, s *server) error {
	for began := time.Now(); ; {
		if s.exited() {
			return fmt.Errorf("server %s: %w: %s", sd.id, errExited, logTail(sd))
		}
		up, err := probe(ctx, sd)
		if up || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("server %s: wait until it is up: %w", sd.id, context.Cause(ctx))
		case <-time.After(min(max(time.Since(began)/50, minProbeInterval), maxProbeInterval)):
		}
	}
}

// ensureUp starts a ready server unless it runs, and returns when it is up. The caller holds its lock.
func (r *runner) ensureUp(ctx context.Context, sd serverDir, st state) error {
	s, _, err := r.ensureRunning(ctx, sd, st)
	if err != nil {
		return err
	}
	defer s.close()
	return awaitUp(ctx, sd, s, r.startTimeout)
}

// ensureRunning returns a ready server, and starts it if it does not run. The caller holds its lock.
func (r *runner) ensureRunning(ctx context.Context, sd serverDir, st state) (s *server, started bool, err error) {
	if s, err = findServer(ctx, sd, r.owner); s != nil || err != nil {
		return s, false, err
	}
	log, asked := readLogTail(sd), shutDown(readLogEnd(sd, endLogBytes))
	killed := r.groups.KilledForMemory(sd.id)
	if s, err = r.start(ctx, sd, st); err != nil {
		return nil, false, err
	}
	level := slog.LevelWarn
	if asked { // for a resize, with the host, or by StopAll or an operator
		level = slog.LevelInfo
	}
	// Its last log lines say why it exited, for example because another program has its port, or because the disk is full.
	attributes := []slog.Attr{slog.String("server", sd.id), slog.Int("port", st.Port), slog.Int("pid", s.pid),
		slog.Any("logged_last", tellingLines(log))}
	if killed { // which it could not log
		attributes = append(attributes, slog.Bool("killed_for_memory", true))
	}
	r.cfg.Logger.LogAttrs(ctx, level, "started a server that did not run", attributes...)
	return s, true, nil
}

// stopIfRunning stops a server, by server.stop or server.kill. The caller holds its lock.
func (r *runner) stopIfRunning(ctx context.Context, sd serverDir, end func(*server, context.Context) error) error {
	s, err := findServer(ctx, sd, r.owner)
	if s == nil || err != nil {
		return err
	}
	defer s.close()
	return end(s, ctx)
}

const socketName = "mysqld.sock"

// settings returns the content of a server's settings file. It holds no secret.
func (c Config) settings(sd serverDir, st state, b mysqld.Binary) []byte {
	lines := []string{
		"# Written when the server starts; changes are lost.",
		"[mysqld]",
		fmt.Sprintf("port=%d", st.Port),
		"bind-address=" + c.BindAddress,
		"basedir=" + mysqld.Quote(b.BaseDir),
		"datadir=" + mysqld.Quote(sd.dataDir()),
		"tmpdir=" + mysqld.Quote(sd.tmpDir()),
		"ssl-ca=" + mysqld.Quote(sd.caFile()),
		"ssl-cert=" + mysqld.Quote(sd.certificateFile()),
		"ssl-key=" + mysqld.Quote(sd.keyFile()),
	}
	// The socket is in the data directory, so that its path cannot exceed the 107 bytes of a socket address.
	lines = append(lines, "socket="+socketName, "pid-file=mysqld.pid")
	lines = append(lines, mysqld.Settings(b.Flavour, st.MemoryMB, st.RedoMB, st.BinaryLogs)...)
	if b.Flavour == mysqld.MariaDB {
		lines = append(lines, "secure-file-priv="+mysqld.Quote(sd.tmpDir()))
	} else {
		lines = append(lines, rsaSettings(sd)...)
	}
	lines = append(lines, c.Settings...)
	return []byte(strings.Join(lines, "\n") + "\n")
}
