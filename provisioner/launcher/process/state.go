package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
)

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
	Version   string `json:"version,omitempty"` // that the data are of; brokers of before this field did not record it
	Host      string `json:"host,omitempty"`    // at launch; applications and the certificate hold it for good
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
		return state{}, fmt.Errorf("server %s: %w", d.id, err)
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
		return fmt.Errorf("server %s: %w", d.id, err)
	}
	if err := replaceFile(d.stateFile(), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("server %s: record its state: %w", d.id, err)
	}
	return nil
}
