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
	"mysql-broker/provisioner/launcher/process/files"
)

// Destroy implements launcher.Launcher. It moves the directory away in one rename, so that leftovers after a crash
// cannot be taken for a server.
func (l *Launcher) Destroy(ctx context.Context, id string) error {
	return l.destroy(ctx, id, func(serverDir) error { return nil })
}

// DestroyUnused implements launcher.Launcher.
func (l *Launcher) DestroyUnused(ctx context.Context, id string) error {
	return l.destroy(ctx, id, serverDir.notKept)
}

// notKept returns an error if Keep was called for the server: it may hold data.
func (d serverDir) notKept() error {
	if kept, err := d.kept(); kept || err != nil {
		return errors.Join(launcher.ErrKept, err)
	}
	return nil
}

// destroy removes a server if may, called with the server's lock held, returns nil.
func (l *Launcher) destroy(ctx context.Context, id string, may func(serverDir) error) error {
	sd, err := l.run.place.server(id)
	if err != nil {
		return err
	}
	unlock, err := lockDir(ctx, sd.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return l.run.place.emptyTrash(sd.id + "-*") // the broker that was destroying it may have died
	}
	if err != nil {
		return err
	}
	defer unlock()
	if err := may(sd); err != nil {
		return sd.explain(err)
	}
	if err := l.retire(ctx, sd); err != nil {
		return err
	}
	fault.Point("destroy", "stopped")
	if err := l.run.groups.Remove(ctx, sd.id); err != nil { // the server is removed even if its group is not
		l.run.cfg.Logger.Warn("a control group is left behind", "error", err)
	}
	return l.run.place.discard(sd)
}

// retire stops a server for good. Its data is no longer needed, so it is killed. A full disk must not prevent the
// removal, which makes room, so the phase need not be recorded then. If the broker dies before the removal, the server
// may be started again, and is removed when the task continues.
func (l *Launcher) retire(ctx context.Context, sd serverDir) error {
	st, err := sd.loadState()
	if err != nil && !errors.Is(err, launcher.ErrNotFound) { // its state no longer matters
		l.run.cfg.Logger.Warn("could not read the state of a server that is being destroyed", "server", sd.id, "error", err)
	}
	st.Phase = phaseDestroying
	if err := sd.saveState(st); err != nil && !saysDiskFull(err) {
		return err
	}
	fault.Point("destroy", "recorded")
	return l.run.stopIfRunning(ctx, sd, (*server).kill)
}

func (p place) discard(sd serverDir) error {
	grave := filepath.Join(p.trashDir(), sd.id+"-"+rand.Text())
	if err := os.Rename(sd.dir, grave); err != nil {
		return sd.explain(err)
	}
	fault.Point("destroy", "moved away")
	return sd.explain(os.RemoveAll(grave))
}

// emptyTrash removes the matching directories that brokers left when they died during Destroy.
func (p place) emptyTrash(pattern string) error {
	graves, err := filepath.Glob(filepath.Join(p.trashDir(), pattern))
	for n := 0; n < len(graves) && err == nil; n++ {
		err = os.RemoveAll(graves[n])
	}
	if err != nil {
		return fmt.Errorf("empty the trash: %w", err)
	}
	return nil
}

// Keep implements launcher.Launcher. The record is a file next to the state.
func (l *Launcher) Keep(ctx context.Context, id string) error {
	sd, err := l.run.place.server(id)
	if err != nil {
		return err
	}
	if kept, err := sd.kept(); kept || err != nil {
		return err
	}
	unlock, err := sd.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	const why = "This server was reported ready. It may hold data that the broker's records do not know of.\n"
	if err := files.Replace(sd.keptFile(), []byte(why), 0o600); err != nil {
		return explainNoRoom(fmt.Errorf("server %s: record that it is to be kept: %w", id, err))
	}
	return nil
}

// kept reports whether Keep was called for the server.
func (d serverDir) kept() (bool, error) {
	_, err := os.Lstat(d.keptFile())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, d.explain(err)
}
