package process

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mysql-broker/provisioner/periodic"
)

const (
	// spareInterval is how often spares are counted.
	spareInterval = time.Second

	// spareSpace is what is left free on the disk by those who make spares: room is for instances first.
	spareSpace = 1 << 30

	// unfinished is the suffix of what is being made and must not be used.
	unfinished = ".unfinished"
)

// A spare is the data directory and the keys of a server to come, made ahead: to copy and sync them takes a launch
// longer than MariaDB takes to start. It lies in a directory of its own under spares, named for what it fits, and is no
// server: nothing runs in it, it has no state, no port and no account.
//
// The broker that supervises alone makes and removes them. Any broker takes one, by a rename: who comes second finds
// nothing. One that was begun when its broker died is removed by the next that supervises.
func (l *Launcher) newSpare() serverDir {
	id := rand.Text()
	return serverDir{id: id, dir: filepath.Join(l.sparesDir(), l.spareKind()+id)}
}

// spareKind begins the names of spares that fit this launcher's servers: a certificate is for one host.
func (l *Launcher) spareKind() string {
	b := l.cfg.Binary
	return b.Flavour + "-" + b.Version + "," + url.PathEscape(l.cfg.Host) + ","
}

func (l *Launcher) sparesDir() string    { return filepath.Join(l.cfg.Dir, "spares") }
func (d serverDir) claimedSpare() string { return filepath.Join(d.dir, "spare") }

// takeSpare gives a server that is to be reached as host the data directory of a spare, and its keys unless there are
// some already or they are for another host; false if there is no spare.
func (l *Launcher) takeSpare(sd serverDir, host string) (taken bool, err error) {
	claimed := serverDir{id: sd.id, dir: sd.claimedSpare()}
	if err := os.RemoveAll(claimed.dir); err != nil { // of a launch that was cut off
		return false, err
	}
	spares, err := l.spares()
	if err != nil {
		return false, err
	}
	for _, name := range spares {
		err := os.Rename(filepath.Join(l.sparesDir(), name), claimed.dir)
		if errors.Is(err, fs.ErrNotExist) { // another server has got it
			continue
		}
		if err != nil {
			return false, err
		}
		if err := os.Rename(claimed.dataDir(), sd.dataDir()); err != nil {
			return false, err
		}
		if _, err := os.Stat(sd.tlsDir()); errors.Is(err, fs.ErrNotExist) && host == l.cfg.Host &&
			l.fits(claimed) {
			if err := os.Rename(claimed.tlsDir(), sd.tlsDir()); err != nil {
				return false, err
			}
		}
		return true, os.RemoveAll(claimed.dir)
	}
	return false, nil
}

// spares names those that are finished and fit.
func (l *Launcher) spares() ([]string, error) {
	entries, err := os.ReadDir(l.sparesDir())
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), l.spareKind()) && !strings.HasSuffix(e.Name(), unfinished) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// keepSpares keeps Config.Spares of them in stock until the context ends. They are made one after the other, and none
// while a server is being launched here, so that the host's power goes to what somebody waits for.
func (l *Launcher) keepSpares(ctx context.Context) {
	if err := l.removeUnfitSpares(); err != nil {
		l.cfg.Logger.Warn("spare data directories were not removed", "error", err)
	}
	periodic.Run(ctx, periodic.Schedule{Every: spareInterval}, &periodic.Status{What: "making spare data directories",
		Meanwhile: "launches take longer", Log: l.cfg.Logger}, l.fillSpares)
}

// fillSpares leaves it be until the first launch has made a template: a host may never launch anything.
func (l *Launcher) fillSpares(ctx context.Context) error {
	template := l.templateDir()
	if _, err := os.Stat(template); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for ctx.Err() == nil && l.launching.Load() == 0 {
		spares, err := l.spares()
		if err != nil || len(spares) >= l.cfg.Spares {
			return err
		}
		if free, err := spaceLeft(l.sparesDir()); err != nil || free < spareSpace {
			return err
		}
		if err := l.makeSpare(ctx, template); err != nil {
			return err
		}
	}
	return nil
}

func (l *Launcher) makeSpare(ctx context.Context, template string) (err error) {
	spare := l.newSpare()
	begun := serverDir{id: spare.id, dir: spare.dir + unfinished}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("make a spare: %w", err), os.RemoveAll(begun.dir))
		}
	}()
	if err := os.Mkdir(begun.dir, traversable); err != nil {
		return err
	}
	if err := copySparse(ctx, template, begun.dataDir(), l.owner); err != nil {
		return err
	}
	if err := l.writeKeys(begun, l.cfg.Host); err != nil {
		return err
	}
	if err := syncFilesystem(begun.dir); err != nil {
		return err
	}
	return os.Rename(begun.dir, spare.dir)
}

// removeUnfitSpares removes what a broker that died was making, and what does not fit this launcher's servers or is one
// too many. Each is given a name first under which nobody takes it.
func (l *Launcher) removeUnfitSpares() error {
	fit, err := l.spares()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(l.sparesDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(fit[:min(len(fit), l.cfg.Spares)], e.Name()) {
			continue
		}
		going := filepath.Join(l.sparesDir(), rand.Text()+unfinished)
		err := os.Rename(filepath.Join(l.sparesDir(), e.Name()), going)
		if errors.Is(err, fs.ErrNotExist) { // a server of another broker has got it
			continue
		}
		if err := errors.Join(err, os.RemoveAll(going)); err != nil {
			return err
		}
	}
	return nil
}
