package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process/files"
)

const (
	// stopTime is how long a server may take to shut down before its data is copied. It is not killed then, because a
	// newer version may be unable to recover the redo log.
	stopTime = 10 * time.Minute

	// dataUpgradeTime limits the upgrade of the system tables. It depends on the number of tables.
	dataUpgradeTime = time.Hour
)

// offline are the options of a server that only this host's programs can reach, through its socket. Tenants' events do
// not run: after a revert, what they did would be lost or done again.
var offline = []string{"--skip-networking", "--event-scheduler=OFF"}

// dataUpgrade are the options with which MySQL upgrades its data, even if it was killed while it did so before.
// https://dev.mysql.com/doc/refman/8.4/en/server-options.html#option_mysqld_upgrade
var dataUpgrade = map[string][]string{mysqld.MySQL: {"--loose-upgrade=FORCE"}}

func (d serverDir) copyDir() string       { return filepath.Join(d.dir, "before-upgrade") }
func (d serverDir) inventoryFile() string { return filepath.Join(d.dir, "before-upgrade.json") }
func (d serverDir) loginFile() string     { return filepath.Join(d.dir, "upgrade.cnf") }

// removeUpgradeFiles removes what only an unfinished upgrade needs, a password and a copy of the data among it.
func (d serverDir) removeUpgradeFiles() error {
	return files.Remove(d.copyDir(), d.copyDir()+unfinished, d.inventoryFile(), d.loginFile())
}

// Upgrade implements launcher.Upgrader. While phaseUpgrading is recorded, applications cannot connect, so that going
// back loses nothing that they have written. If a broker dies in that phase, the next call starts again from the copy
// or, if that is not complete, from the data, which is unchanged then.
func (l *Launcher) Upgrade(ctx context.Context, spec launcher.Spec,
	report, works func(progress string)) (_ launcher.Endpoint, err error) {
	to, err := l.run.cfg.offered(spec)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	sd, st, unlock, err := l.locked(ctx, spec)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	defer unlock()
	if st.Phase != phaseReady && st.Phase != phaseUpgrading {
		return launcher.Endpoint{}, fmt.Errorf("server %s: it is %s: %w", sd.id, st.Phase, launcher.ErrNotFound)
	}
	report, end := files.WatchWork(sd.dir, files.WorkInterval, report, works)
	defer end()
	switch order := launcher.CompareVersions(to.Version, st.Version); {
	case st.Flavour != to.Flavour || order < 0:
		return launcher.Endpoint{}, &launcher.Error{Action: launcher.GiveUp,
			Sentence: fmt.Sprintf("A server of %s cannot become one of %s.",
				launcher.Version{Flavour: st.Flavour, Version: st.Version}, versionOf(to)),
			Err: fmt.Errorf("server %s: its data is of %s %s, and %s is wanted", sd.id, st.Flavour, st.Version, versionOf(to))}
	case order > 0 || st.Phase == phaseUpgrading:
		u := &upgrade{l.run, sd, st, to, spec, report}
		if err := u.data(ctx); err != nil {
			return launcher.Endpoint{}, err
		}
		st = u.st
	}
	report("Starting " + versionOf(to).String())
	if err := l.run.ensureUp(ctx, sd, st); err != nil {
		return launcher.Endpoint{}, explainNoRoom(err)
	}
	endpoint, err := l.answerFor(ctx, sd, st, spec)
	if err != nil {
		return endpoint, explainNoRoom(err)
	}
	fault.Point("upgrade", "answers")
	return endpoint, sd.removeUpgradeFiles()
}

// upgrade is the work on one server, whose lock is held.
type upgrade struct {
	run    *runner
	sd     serverDir
	st     state
	to     mysqld.Binary
	spec   launcher.Spec
	report func(progress string)
}

// data copies the data of a server, upgrades it, and compares. Then the server is ready to be started.
func (u *upgrade) data(ctx context.Context) error {
	end := (*server).kill // nobody needs what an earlier attempt wrote
	if u.st.Phase == phaseReady {
		if _, err := u.run.programFor(u.sd, u.st); err != nil { // before it is stopped
			return err
		}
		if err := roomToCopy(u.sd); err != nil {
			return err
		}
		u.report("Stopping the server")
		if err := context.Cause(ctx); err != nil { // another broker may have the work now
			return err
		}
		u.st.Phase, u.st.Copied = phaseUpgrading, false
		if err := u.sd.saveState(u.st); err != nil {
			return err
		}
		fault.Point("upgrade", "recorded")
		end = (*server).stop
	}
	err := u.run.stopIfRunning(ctx, u.sd, end)
	if err == nil {
		fault.Point("upgrade", "stopped")
		err = u.copyAndTry(ctx)
	}
	if err != nil && ctx.Err() == nil { // applications wait, so it is not tried again
		return &launcher.Error{Action: launcher.GiveUp, Err: err,
			Sentence: fmt.Sprintf("The server could not be upgraded to %s. It continues with %s and the earlier data.",
				versionOf(u.to), launcher.Version{Flavour: u.st.Flavour, Version: u.st.Version})}
	}
	if err != nil {
		return err
	}
	fault.Point("upgrade", "compared")
	u.st.Phase, u.st.Version, u.st.Copied = phaseReady, u.to.Version, false
	return u.sd.saveState(u.st)
}

// copyAndTry upgrades the data of a server that does not run.
func (u *upgrade) copyAndTry(ctx context.Context) error {
	u.report("Copying the data")
	if err := context.Cause(ctx); err != nil { // another broker may have the work now
		return err
	}
	if err := u.keepCopy(ctx); err != nil {
		return err
	}
	fault.Point("upgrade", "copied")
	u.report("Upgrading the data to " + versionOf(u.to).String())
	if err := context.Cause(ctx); err != nil { // another broker may have the work now
		return err
	}
	return u.tryVersion(ctx)
}

// roomToCopy returns an error if the disk has no room for a copy of the data.
func roomToCopy(sd serverDir) error {
	needed, err := files.SpaceTaken(sd.dataDir())
	if err != nil {
		return fmt.Errorf("server %s: measure its data: %w", sd.id, err)
	}
	needed += startSpaceMB << 20
	free, err := files.SpaceLeft(sd.dir)
	if err == nil && free < needed {
		return &launcher.Error{Action: launcher.GiveUp,
			Sentence: "There is too little room on the disk to upgrade the server now: a copy of its data is kept meanwhile.",
			Err: fmt.Errorf("%w: %d MiB are left at %s, %d are needed to copy the data of server %s", launcher.ErrNoRoom,
				free>>20, sd.dir, needed>>20, sd.id)}
	}
	return err
}

// keepCopy makes the copy of the data of a server that does not run. If there is one, it makes the data equal to it. If
// a revert has moved the copy back and then ended, the data is that of before.
func (u *upgrade) keepCopy(ctx context.Context) error {
	_, err := os.Stat(u.sd.copyDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if u.st.Copied && err == nil {
		if err := files.Remove(u.sd.dataDir()); err != nil {
			return err
		}
		return files.Copy(ctx, u.sd.copyDir(), u.sd.dataDir(), u.run.owner)
	}
	if err := u.takeInventory(ctx); err != nil {
		return err
	}
	begun := u.sd.copyDir() + unfinished
	if err := files.Remove(begun, u.sd.copyDir()); err != nil {
		return err
	}
	err = files.Copy(ctx, u.sd.dataDir(), begun, u.run.owner)
	if err == nil {
		err = files.SyncFilesystem(begun)
	}
	if err == nil {
		err = os.Rename(begun, u.sd.copyDir())
	}
	if err == nil {
		err = files.SyncDir(u.sd.dir)
	}
	if err != nil {
		return err
	}
	u.st.Copied = true
	return u.sd.saveState(u.st)
}

// takeInventory records what the server has, in its present version. It leaves data that needs no recovery.
func (u *upgrade) takeInventory(ctx context.Context) error {
	present, err := u.run.programFor(u.sd, u.st)
	if err != nil {
		return err
	}
	return u.run.offline(ctx, u.sd, u.st, present, nil, func() error {
		found, err := inventoryOf(ctx, u.sd, u.spec)
		if err != nil {
			return err
		}
		data, err := json.Marshal(found)
		if err != nil {
			return err
		}
		return files.Replace(u.sd.inventoryFile(), data, 0o600)
	})
}

// tryVersion upgrades the data and compares what the server has with its inventory.
func (u *upgrade) tryVersion(ctx context.Context) error {
	return u.run.offline(ctx, u.sd, u.st, u.to, dataUpgrade[u.to.Flavour], func() error {
		fault.Point("upgrade", "started")
		if u.to.Flavour == mysqld.MariaDB && !launcher.SameSeries(u.st.Version, u.to.Version) {
			if err := u.upgradeTables(ctx); err != nil {
				return err
			}
		}
		fault.Point("upgrade", "tables upgraded")
		found, err := inventoryOf(ctx, u.sd, u.spec)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(found.Version, u.to.Version) {
			return fmt.Errorf("server %s: it says that it is %s, and %s was started", u.sd.id, found.Version, versionOf(u.to))
		}
		var before inventory
		data, err := os.ReadFile(u.sd.inventoryFile())
		if err == nil {
			err = json.Unmarshal(data, &before)
		}
		if err != nil {
			return fmt.Errorf("server %s: what it had before: %w", u.sd.id, err)
		}
		return before.in(found)
	})
}

// offline runs fn while the server runs without a network, and shuts it down.
func (r *runner) offline(ctx context.Context, sd serverDir, st state, b mysqld.Binary, options []string,
	fn func() error) error {
	s, err := r.startProgram(ctx, sd, st, b, append(options, offline...)...)
	if err != nil {
		return err
	}
	defer s.close()
	if err := awaitUp(ctx, sd, s, dataUpgradeTime); err != nil {
		return err
	}
	if err := fn(); err != nil {
		if s.exited() {
			err = fmt.Errorf("%w: the server ended: %s", err, logTail(sd))
		}
		return err
	}
	return shutDownCleanly(ctx, sd, s)
}

// shutDownCleanly stops a server. It fails if the server does not write everything to its files.
func shutDownCleanly(ctx context.Context, sd serverDir, s *server) error {
	if err := s.signal(unix.SIGTERM); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	if err := s.wait(limited); err != nil {
		return fmt.Errorf("server %s: wait until it has shut down: %w", sd.id, err)
	}
	if log := readLogEnd(sd, endLogBytes); !shutDown(log) {
		return fmt.Errorf("server %s: it did not shut down properly: %s", sd.id, tellingLines(log))
	}
	return nil
}

// upgradeTables runs mariadb-upgrade, which upgrades the system tables of MariaDB.
// https://mariadb.com/docs/server/clients-and-utilities/deployment-tools/mariadb-upgrade
func (u *upgrade) upgradeTables(ctx context.Context) error {
	program, err := u.to.UpgradeTool()
	if err != nil {
		return err
	}
	login := fmt.Sprintf("[client]\nuser=%s\npassword=%s\nsocket=%s\n", u.spec.AdminUser, u.spec.AdminPassword, socketName)
	if err := files.Remove(u.sd.loginFile()); err != nil {
		return err
	}
	defer os.Remove(u.sd.loginFile())
	if err := u.run.owner.WriteSecret(u.sd.loginFile(), []byte(login)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, dataUpgradeTime)
	defer cancel()
	cmd := tool(ctx, u.run.owner, u.sd.tmpDir(), program, "--defaults-file="+u.sd.loginFile())
	cmd.Dir = u.sd.dataDir() // where the socket is: its path may be too long for an address
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("server %s: %s: %w: %s", u.sd.id, filepath.Base(program), err, tellingLines(string(out)))
	}
	return nil
}

// Revert implements launcher.Upgrader.
func (l *Launcher) Revert(ctx context.Context, spec launcher.Spec,
	report, _ func(progress string)) (launcher.Endpoint, error) {
	sd, st, unlock, err := l.locked(ctx, spec)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	defer unlock()
	if st.Phase == phaseUpgrading {
		report("Putting the earlier data back")
	}
	if err := context.Cause(ctx); err != nil { // another broker may have the work now
		return launcher.Endpoint{}, err
	}
	if st, err = l.run.abandonUpgrade(ctx, sd, st); err != nil {
		return launcher.Endpoint{}, err
	}
	if st.Phase != phaseReady {
		return launcher.Endpoint{}, fmt.Errorf("server %s: it is %s: %w", sd.id, st.Phase, launcher.ErrNotFound)
	}
	if err := l.run.ensureUp(ctx, sd, st); err != nil {
		return launcher.Endpoint{}, err
	}
	end, err := l.answerFor(ctx, sd, st, spec)
	if err != nil {
		return end, err
	}
	return end, sd.removeUpgradeFiles()
}

// abandonUpgrade makes a server ready again, as it was before an upgrade that has not succeeded. It does not start it.
// It does nothing in other phases. The caller holds the server's lock.
func (r *runner) abandonUpgrade(ctx context.Context, sd serverDir, st state) (state, error) {
	if st.Phase != phaseUpgrading {
		return st, nil
	}
	if err := r.stopIfRunning(ctx, sd, (*server).kill); err != nil {
		return st, err
	}
	if _, err := os.Stat(sd.copyDir()); st.Copied && err == nil {
		if err := files.Remove(sd.dataDir()); err != nil {
			return st, err
		}
		fault.Point("revert", "data removed")
		if err := os.Rename(sd.copyDir(), sd.dataDir()); err != nil {
			return st, err
		}
		fault.Point("revert", "copy moved")
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return st, err
	} // otherwise the data is unchanged, or the copy was moved before a crash
	if err := files.SyncDir(sd.dir); err != nil {
		return st, err
	}
	st.Phase, st.Copied = phaseReady, false
	if err := sd.saveState(st); err != nil {
		return st, err
	}
	return st, sd.removeUpgradeFiles()
}
