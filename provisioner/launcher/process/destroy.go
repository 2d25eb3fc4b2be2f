package process

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
)

// Destroy implements launcher.Launcher. The files are moved out of the way in one act, so that what is left of them
// after a crash can never be taken for a server.
func (l *Launcher) Destroy(ctx context.Context, id string) error {
	return l.destroy(ctx, id, func(serverDir) error { return nil })
}

// DestroyUnused implements launcher.Launcher.
func (l *Launcher) DestroyUnused(ctx context.Context, id string) error {
	return l.destroy(ctx, id, func(sd serverDir) error {
		if kept, err := sd.kept(); kept || err != nil {
			return errors.Join(launcher.ErrKept, err)
		}
		return nil
	})
}

// destroy removes a server if may, which is asked while its lock is held, returns nil.
func (l *Launcher) destroy(ctx context.Context, id string, may func(serverDir) error) error {
	sd, err := l.serverDir(id)
	if err != nil {
		return err
	}
	unlock, err := lockDir(ctx, sd.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return l.emptyTrash(sd.id + "-*") // a broker that was destroying it may have died
	}
	if err != nil {
		return err
	}
	defer unlock()
	if err := may(sd); err != nil {
		return fmt.Errorf("server %s: %w", sd.id, err)
	}
	if err := l.retire(ctx, sd); err != nil {
		return err
	}
	fault.Point("destroy", "stopped")
	if err := l.groups.removeGroup(ctx, sd.id); err != nil { // what else is in it does not keep the server there
		l.cfg.Logger.Warn("a control group is left behind", "error", err)
	}
	return l.discard(sd)
}

// retire stops a server for ever. Its data are of no use any more, so it need not write them out. A disk so full that
// not even this can be recorded must not keep the server there: removing it makes room, and a server that is started
// once more because the broker died before that is removed when the task goes on.
func (l *Launcher) retire(ctx context.Context, sd serverDir) error {
	st, err := sd.loadState()
	if err != nil && !errors.Is(err, launcher.ErrNotFound) { // it is of no use any more, whatever it was
		l.cfg.Logger.Warn("a server is destroyed of which the state cannot be read", "server", sd.id, "error", err)
	}
	st.Phase = phaseDestroying
	if err := sd.saveState(st); err != nil && !saysDiskFull(err) {
		return err
	}
	fault.Point("destroy", "recorded")
	return l.stopIfRunning(ctx, sd, (*server).kill)
}

func (l *Launcher) discard(sd serverDir) error {
	grave := filepath.Join(l.trashDir(), sd.id+"-"+rand.Text())
	if err := os.Rename(sd.dir, grave); err != nil {
		return fmt.Errorf("server %s: %w", sd.id, err)
	}
	fault.Point("destroy", "moved away")
	if err := os.RemoveAll(grave); err != nil {
		return fmt.Errorf("server %s: %w", sd.id, err)
	}
	return nil
}

// emptyTrash removes what brokers that died in the middle of Destroy left, of the servers that match.
func (l *Launcher) emptyTrash(pattern string) error {
	graves, err := filepath.Glob(filepath.Join(l.trashDir(), pattern))
	if err != nil {
		return fmt.Errorf("empty the trash: %w", err)
	}
	for _, grave := range graves {
		if err := os.RemoveAll(grave); err != nil {
			return fmt.Errorf("empty the trash: %w", err)
		}
	}
	return nil
}
