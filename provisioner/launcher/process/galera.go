package process

import (
	"context"
	_ "embed" // the program for transfers
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"mysql-broker/provisioner/launcher/galera"
	"mysql-broker/provisioner/launcher/mysqld"
)

//go:embed wsrep_sst_broker.sh
var transferProgram []byte

// joinAgain is the least time between two starts of a member.
const joinAgain = 5 * time.Second

// inGalera reports whether a server is a member of Galera, or such a group.
func (st state) inGalera() bool { return st.Group != nil && st.Flavour == mysqld.MariaDB }

func (l *Launcher) galeraDir() string { return filepath.Join(l.cfg.Dir, "galera") }

// writeTransferProgram writes the program that members of Galera run to get all data.
func (l *Launcher) writeTransferProgram() error {
	path := filepath.Join(l.galeraDir(), "wsrep_sst_"+mysqld.GaleraTransfer)
	if err := os.MkdirAll(l.galeraDir(), traversable); err != nil {
		return err
	}
	if present, err := os.ReadFile(path); err == nil && slices.Equal(present, transferProgram) {
		return nil
	}
	return replaceFile(path, transferProgram, 0o755)
}

// galeraOptions returns the options with which a member of Galera starts from the position of its data, so that it gets
// only what it has missed. Galera itself does not know the position of a member that was killed.
func (l *Launcher) galeraOptions(ctx context.Context, m serverDir, st state, b mysqld.Binary,
	first bool) ([]string, error) {
	if !st.inGalera() {
		return nil, nil
	}
	if err := l.writeTransferProgram(); err != nil {
		return nil, fmt.Errorf("server %s: %w", m.id, err)
	}
	if err := l.writeEventsFile(m); err != nil {
		return nil, fmt.Errorf("server %s: %w", m.id, err)
	}
	options := []string{"--event-scheduler=OFF", "--init-file=" + m.eventsFile()}
	at, err := l.position(ctx, m, b)
	switch {
	case err != nil:
		return nil, err
	case at.Seqno < 0:
		return options, nil
	case first:
		if err := l.writePosition(m, at); err != nil {
			return nil, err
		}
	case !at.Safe: // it gets all data
		return options, nil
	}
	return append(options, "--wsrep-start-position="+at.String()), nil
}

// eventsFile holds the statements by which a member of Galera begins to run events. A member that has got all data runs
// those events too that run on the member from which it has got them, so the program for transfers replaces the file by
// one that ends this. It is of use once.
func (d serverDir) eventsFile() string { return filepath.Join(d.tmpDir(), "events.sql") }

func (l *Launcher) writeEventsFile(m serverDir) error {
	if _, err := os.Lstat(m.eventsFile()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return l.owner.writeSecret(m.eventsFile(), mysqld.EventsSQL)
}

var (
	savedGroup    = regexp.MustCompile(`(?m)^uuid:\s+(\S+)$`)
	savedSeqno    = regexp.MustCompile(`(?m)^seqno:\s+(-?\d+)$`)
	foundPosition = regexp.MustCompile(`WSREP: Recovered position: ([0-9a-f-]{36}):(-?\d+)`)
)

// newCluster is the option with which a member begins a group.
const newCluster = "--wsrep-new-cluster"

func (d serverDir) positionFile() string { return filepath.Join(d.dataDir(), "grastate.dat") }

// position returns that of a member of Galera that does not run. The caller holds its lock.
func (l *Launcher) position(ctx context.Context, m serverDir, b mysqld.Binary) (galera.Position, error) {
	none := galera.Position{Seqno: -1}
	if _, err := os.Lstat(filepath.Join(m.dataDir(), "incomplete")); err == nil { // it was killed while it got all data
		return none, removeIfThere(m.positionFile())
	}
	saved, err := os.ReadFile(m.positionFile())
	if errors.Is(err, fs.ErrNotExist) { // it has not joined yet
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("server %s: %w", m.id, err)
	}
	group, seqno := savedGroup.FindSubmatch(saved), savedSeqno.FindSubmatch(saved)
	safe := group != nil && seqno != nil && string(group[1]) != galera.NoGroup
	if safe && string(seqno[1]) != "-1" { // it was shut down
		return parsePosition(group[1], seqno[1], safe)
	}
	out, err := l.recover(ctx, m, b)
	if err != nil {
		return none, err
	}
	found := foundPosition.FindSubmatch(out)
	if found == nil {
		return none, fmt.Errorf("server %s: it does not say which transactions it has: %s", m.id, tellingLines(string(out)))
	}
	if string(found[1]) == galera.NoGroup {
		return none, nil
	}
	return parsePosition(found[1], found[2], safe)
}

func parsePosition(group, seqno []byte, safe bool) (galera.Position, error) {
	n, err := strconv.ParseInt(string(seqno), 10, 64)
	return galera.Position{Group: string(group), Seqno: n, Safe: safe}, err
}

// recover has the program find out the position, which recovers the data from a crash. The name of the settings file is
// not the one by which findServer knows servers.
func (l *Launcher) recover(ctx context.Context, m serverDir, b mysqld.Binary) ([]byte, error) {
	lock, err := holdLock(ctx, m.tlsDir())
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", m.id, err)
	}
	defer lock.Close()
	ctx, cancel := context.WithTimeout(ctx, toolTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.Path, "--defaults-file="+filepath.Base(m.settingsFile()), "--wsrep-recover",
		"--skip-networking")
	cmd.Dir, cmd.Env = m.dir, serverEnvironment()
	cmd.SysProcAttr = l.owner.attributes()
	cmd.ExtraFiles = []*os.File{lock}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("server %s: find out which transactions it has: %w: %s", m.id, err, tellingLines(string(out)))
	}
	return out, nil
}

// writePosition writes, where Galera reads it, that a group may begin with this member, and the position.
func (l *Launcher) writePosition(m serverDir, at galera.Position) error {
	content := fmt.Sprintf("# GALERA saved state\nversion: 2.1\nuuid:    %s\nseqno:   %d\nsafe_to_bootstrap: 1\n",
		at.Group, at.Seqno)
	if err := removeIfThere(m.positionFile()); err != nil {
		return err
	}
	return l.owner.writeSecret(m.positionFile(), []byte(content))
}
