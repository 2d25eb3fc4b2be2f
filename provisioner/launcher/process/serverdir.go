package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process/files"
)

// place is the state directory.
type place string

func (p place) serversDir() string   { return filepath.Join(string(p), "instances") }
func (p place) templatesDir() string { return filepath.Join(string(p), "templates") }
func (p place) trashDir() string     { return filepath.Join(string(p), "trash") }
func (p place) notesDir() string     { return filepath.Join(string(p), "notes") }

// list returns the ids of all servers, in any phase.
func (p place) list() ([]string, error) {
	all, err := p.servers()
	ids := make([]string, len(all))
	for i, sd := range all {
		ids[i] = sd.id
	}
	return ids, err
}

var validID = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)

// serverDir is the directory of one server. It belongs to the broker. The server may write only to data and tmp, so
// that a tenant who takes over the server cannot make the broker read or write elsewhere.
type serverDir struct {
	id, dir string
}

func (p place) server(id string) (serverDir, error) {
	if !validID.MatchString(id) {
		return serverDir{}, fmt.Errorf("server id %q: want 1 to 32 lower-case letters, digits and underscores", id)
	}
	return serverDir{id: id, dir: filepath.Join(p.serversDir(), id)}, nil
}

// servers returns the directories of all servers, in any phase.
func (p place) servers() ([]serverDir, error) {
	entries, err := os.ReadDir(p.serversDir())
	if err != nil {
		return nil, fmt.Errorf("list servers: %w", err)
	}
	all := make([]serverDir, 0, len(entries))
	for _, e := range entries {
		if sd, err := p.server(e.Name()); err == nil {
			all = append(all, sd)
		}
	}
	return all, nil
}

func (d serverDir) dataDir() string      { return filepath.Join(d.dir, "data") }
func (d serverDir) tmpDir() string       { return filepath.Join(d.dir, "tmp") }
func (d serverDir) tlsDir() string       { return filepath.Join(d.dir, "tls") }
func (d serverDir) caFile() string       { return filepath.Join(d.tlsDir(), "ca.pem") }
func (d serverDir) stateFile() string    { return filepath.Join(d.dir, "state.json") }
func (d serverDir) settingsFile() string { return filepath.Join(d.dir, "mysqld.cnf") }
func (d serverDir) initFile() string     { return filepath.Join(d.dir, "init.sql") }
func (d serverDir) logFile() string      { return filepath.Join(d.dir, "mysqld.log") }
func (d serverDir) keptFile() string     { return filepath.Join(d.dir, "kept") }
func (d serverDir) recordFile() string   { return filepath.Join(d.dir, "record") }

// explain adds the server to an error.
func (d serverDir) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("server %s: %w", d.id, err)
}

// unfinished is the suffix of what is being made and must not be used.
const unfinished = ".unfinished"

// traversable is the mode of directories that belong to the broker and that servers pass through, but cannot list.
const traversable = 0o711

const (
	// lockInterval is the longest pause between attempts to take a lock that another process holds. The first attempts
	// follow faster, because most locks are held only briefly.
	lockInterval = 20 * time.Millisecond

	// lockTimeout is longer than the longest time that a lock's holder waits for a server.
	lockTimeout = startTimeout + time.Minute
)

var errLockTimeout = fmt.Errorf("another process has held it for %s", lockTimeout)

// lockDir waits up to lockTimeout for the exclusive lock of a directory. It fails with fs.ErrNotExist if the directory
// does not exist, or no longer exists when its lock is free. The lock is released by unlock or when the process ends.
func lockDir(ctx context.Context, dir string) (unlock func(), err error) {
	lock, err := holdLock(ctx, dir)
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Close() }, nil
}

// holdLock is lockDir for a caller that passes the lock on to other processes: it is released when all of them have
// closed the file.
func holdLock(ctx context.Context, dir string) (*os.File, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lockTimeout, errLockTimeout)
	defer cancel()
	return files.AwaitLock(ctx, dir, lockInterval)
}

// lock waits for the lock of a server. It fails with launcher.ErrNotFound if there is no such server.
func (d serverDir) lock(ctx context.Context) (unlock func(), err error) {
	unlock, err = lockDir(ctx, d.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("server %s: %w", d.id, launcher.ErrNotFound)
	}
	return unlock, err
}

// phase is the progress of a server. Only a ready server is kept running.
type phase string

const (
	phaseLaunching  phase = "launching"  // not ready yet: Launch starts again from an empty data directory
	phaseReady      phase = "ready"      // may hold a tenant's data
	phaseSuspended  phase = "suspended"  // does not run, and has no port; Launch makes it ready again
	phaseUpgrading  phase = "upgrading"  // only Upgrade and Revert start it, and nobody can connect; see upgrade.go
	phaseDestroying phase = "destroying" // must never run again
)

// state is what is recorded of a server, each time before the launcher acts on it. The limits change only while the
// server is stopped, so a running server always has the recorded limits.
type state struct {
	Phase     phase  `json:"phase"`
	Flavour   string `json:"flavour"`
	Version   string `json:"version"`        // that the data is of
	Host      string `json:"host,omitempty"` // at launch; applications and the certificate hold it for good
	Port      int    `json:"port"`
	MemoryMB  int    `json:"memory_mb"`
	StorageMB int    `json:"storage_mb"`

	BinaryLogs bool `json:"binary_logs,omitempty"`

	Labels map[string]string `json:"labels,omitempty"` // for operators who look into the directory

	// The size that the redo log was raised to, and when; see redolog.go.
	RedoMB     int       `json:"redo_mb,omitempty"`
	RedoRaised time.Time `json:"redo_raised,omitzero"`

	Copied bool `json:"copied,omitempty"` // in phaseUpgrading: the copy of the data is complete
}

// limit sets the limits of a spec.
func (st *state) limit(spec launcher.Spec) {
	st.MemoryMB, st.StorageMB, st.Labels, st.BinaryLogs = spec.MemoryMB, spec.StorageMB, spec.Labels, spec.BinaryLogs
}

func (st state) redoLogMB() int { return mysqld.RedoLogMB(st.Flavour, st.MemoryMB, st.RedoMB) }

// locked takes the lock of a server that was launched, and reads its state. The caller calls unlock.
func (l *Launcher) locked(ctx context.Context, spec launcher.Spec) (sd serverDir, st state, unlock func(), err error) {
	if sd, err = l.instanceOf(spec); err != nil {
		return sd, st, nil, err
	}
	if unlock, err = sd.lock(ctx); err != nil {
		return sd, st, nil, err
	}
	if st, err = sd.loadState(); err != nil {
		unlock()
		return sd, st, nil, err
	}
	return sd, st, unlock, nil
}

// loadState reads the state of a server. It returns launcher.ErrNotFound if there is none.
func (d serverDir) loadState() (state, error) {
	data, err := os.ReadFile(d.stateFile())
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, launcher.ErrNotFound
	}
	if err != nil {
		return state{}, d.explain(err)
	}
	var st state
	if err := json.Unmarshal(data, &st); err != nil {
		return state{}, fmt.Errorf("server %s: %s: %w", d.id, d.stateFile(), err)
	}
	return st, nil
}

func (d serverDir) saveState(st state) error {
	data, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return d.explain(err)
	}
	if err := files.Replace(d.stateFile(), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("server %s: record its state: %w", d.id, err)
	}
	return nil
}
