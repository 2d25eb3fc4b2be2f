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

	// spareSpace is the disk space that spares leave free for instances.
	spareSpace = 1 << 30

	// unfinished is the suffix of what is being made and must not be used.
	unfinished = ".unfinished"
)

// newSpare returns the directory of a new spare. A spare is the data directory and the keys of a future server. It is
// made in advance because copying and syncing them takes longer than MariaDB takes to start. Its directory is under
// spares and is named for the servers that it fits. It is not a server: it has no process, no state, no port and no
// account.
//
// Only the broker that supervises creates and removes spares. Any broker takes one, by a rename that only one broker
// can win. The next supervisor removes a spare that was unfinished when its broker died.
func (l *Launcher) newSpare() serverDir {
	id := rand.Text()
	return serverDir{id: id, dir: filepath.Join(l.sparesDir(), l.spareKind()+id)}
}

// spareKind is the prefix of the names of spares that fit this launcher's servers. It contains the host, because a
// certificate is for one host.
func (l *Launcher) spareKind() string {
	b := l.cfg.Binary
	return b.Flavour + "-" + b.Version + "," + url.PathEscape(l.cfg.Host) + ","
}

func (l *Launcher) sparesDir() string    { return filepath.Join(l.cfg.Dir, "spares") }
func (d serverDir) claimedSpare() string { return filepath.Join(d.dir, "spare") }

// takeSpare moves the data directory of a spare to a server that will be reached as host. It also moves the keys,
// unless the server has some already or they are for another host. It returns false if there is no spare.
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
		if errors.Is(err, fs.ErrNotExist) { // another server has taken it
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

// spares returns the names of the spares that are finished and fit.
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

// keepSpares keeps Config.Spares spares ready until the context ends. It makes one at a time, and none while a server
// is being launched here, so that the launch gets the host's CPU and disk.
func (l *Launcher) keepSpares(ctx context.Context) {
	if err := l.removeUnfitSpares(); err != nil {
		l.cfg.Logger.Warn("spare data directories were not removed", "error", err)
	}
	periodic.Run(ctx, periodic.Schedule{Every: spareInterval}, &periodic.Status{What: "making spare data directories",
		Meanwhile: "launches take longer", Log: l.cfg.Logger}, l.fillSpares)
}

// fillSpares makes the missing spares. It does nothing until the first launch has made a template: a host may never
// launch anything.
func (l *Launcher) fillSpares(ctx context.Context) error {
	template := l.templateDir(l.cfg.Binary)
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

// removeUnfitSpares removes unfinished spares of a broker that died, spares that do not fit this launcher's servers,
// and spares in excess of Config.Spares. It first renames each so that no server takes it.
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
		if errors.Is(err, fs.ErrNotExist) { // a server of another broker has taken it
			continue
		}
		if err := errors.Join(err, os.RemoveAll(going)); err != nil {
			return err
		}
	}
	return nil
}
