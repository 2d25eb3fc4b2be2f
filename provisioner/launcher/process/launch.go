package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process/files"
)

// portAttempts is how many ports are tried if another program takes the chosen port just before the server does.
const portAttempts = 5

// portTaken is what both flavours log in the locale C (EADDRINUSE). Testing the port instead is less reliable: it may
// be free again by then.
const portTaken = "Address already in use"

// Launch implements launcher.Launcher. A server that is not ready yet holds nobody's data, so it starts again from an
// empty data directory; its port and certificate stay.
func (l *Launcher) Launch(ctx context.Context, spec launcher.Spec,
	report func(progress string)) (_ launcher.Endpoint, err error) {
	defer func() { err = explainNoRoom(err) }()
	sd, err := l.instanceOf(spec)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	program, err := l.run.cfg.offered(spec)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	unlock, err := sd.makeAndLock(ctx)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	defer unlock()
	fault.Point("launch", "directory made")
	st, err := sd.reported(ctx, report)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	if st, err = l.run.abandonUpgrade(ctx, sd, st); err != nil {
		return launcher.Endpoint{}, err
	}
	if st.Phase == phaseSuspended {
		if err := l.resume(ctx, sd, &st, spec); err != nil {
			return launcher.Endpoint{}, err
		}
	}
	var written <-chan error
	if st.Phase != phaseReady {
		if err := sd.notKept(); err != nil { // its state was lost, or it is partly destroyed
			return launcher.Endpoint{}, fmt.Errorf("server %s: cannot start over: %w", sd.id, err)
		}
		st = state{Phase: phaseLaunching, Flavour: program.Flavour, Version: program.Version,
			Host: cmp.Or(st.Host, l.run.cfg.Host), Port: st.Port}
		st.limit(spec)
		if err := l.roomToLaunch(sd, st, program); err != nil {
			return launcher.Endpoint{}, err
		}
		if written, err = l.prepare(ctx, sd, &st, program); err != nil {
			return launcher.Endpoint{}, err
		}
	}
	if err := l.bringUp(ctx, sd, &st, spec, report); err != nil {
		return launcher.Endpoint{}, err
	}
	if written != nil {
		if err := <-written; err != nil {
			return launcher.Endpoint{}, sd.explain(err)
		}
	}
	// The report is recorded in parallel; waiting for it would delay every launch.
	var reported sync.WaitGroup
	defer reported.Wait()
	reported.Go(func() { report("Securing the admin account") })
	return l.answerFor(ctx, sd, st, spec)
}

// reported reads the state of a server that is being launched, which is empty if the server is new, and reports to
// users. That may find that another broker has the work.
func (d serverDir) reported(ctx context.Context, report func(string)) (state, error) {
	st, err := d.loadState()
	if err != nil && !errors.Is(err, launcher.ErrNotFound) {
		return state{}, err
	}
	report("Preparing the data directory")
	if ctx.Err() != nil {
		_ = os.Remove(d.dir) // if it is empty: that broker may have destroyed the server already
		return state{}, fmt.Errorf("server %s: %w", d.id, context.Cause(ctx))
	}
	return st, nil
}

// instanceOf returns the directory of a server. It refuses names and passwords that would need escaping in SQL.
func (l *Launcher) instanceOf(spec launcher.Spec) (serverDir, error) {
	if err := mysqld.CheckAdmin(spec.AdminUser, spec.AdminPassword); err != nil {
		return serverDir{}, fmt.Errorf("server %s: %w", spec.ID, err)
	}
	return l.run.place.server(spec.ID)
}

func (d serverDir) makeAndLock(ctx context.Context) (unlock func(), err error) {
	for {
		if ctx.Err() != nil { // another broker may have taken over and destroyed the server
			return nil, fmt.Errorf("server %s: %w", d.id, context.Cause(ctx))
		}
		if err := os.Mkdir(d.dir, traversable); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, d.explain(err)
		}
		unlock, err := lockDir(ctx, d.dir)
		if !errors.Is(err, fs.ErrNotExist) { // ErrNotExist: it was destroyed in between
			return unlock, err
		}
	}
}

// prepare chooses a port and creates all files of a server, after removing the data of an earlier attempt. written
// yields once the files survive a power failure.
func (l *Launcher) prepare(ctx context.Context, sd serverDir, st *state,
	program mysqld.Binary) (written <-chan error, err error) {
	if st.Port != 0 { // otherwise nothing was ever started
		if err := l.run.stopIfRunning(ctx, sd, (*server).kill); err != nil {
			return nil, err
		}
	}
	if err := l.choosePort(ctx, sd, st, 0); err != nil {
		return nil, err
	}
	fault.Point("launch", "port chosen")
	for _, dir := range []string{sd.dataDir(), sd.tmpDir()} {
		if err := os.RemoveAll(dir); err != nil {
			return nil, sd.explain(err)
		}
	}
	if written, err = l.fillDataDir(ctx, sd, st.Host, program); err != nil {
		return nil, sd.explain(err)
	}
	fault.Point("launch", "data copied")
	if err := l.run.owner.Mkdir(sd.tmpDir()); err != nil {
		return nil, sd.explain(err)
	}
	return written, nil
}

// fillDataDir copies the template and creates the keys. The files need not be synced before the server starts, only
// before Launch returns.
func (l *Launcher) fillDataDir(ctx context.Context, sd serverDir, host string,
	program mysqld.Binary) (written <-chan error, err error) {
	template, err := l.templates.get(ctx, program)
	if err != nil {
		return nil, err
	}
	keys := make(chan error, 1) // in parallel: this takes as long as the copy
	go func() { keys <- l.keys.write(sd, host) }()
	err = files.Copy(ctx, template, sd.dataDir(), l.run.owner)
	if err := errors.Join(err, <-keys); err != nil {
		return nil, err
	}
	synced := make(chan error, 1)
	go func() { synced <- files.SyncFilesystem(sd.dir) }()
	return synced, nil
}

// bringUp starts the server if it does not run, and returns when it is up.
func (l *Launcher) bringUp(ctx context.Context, sd serverDir, st *state, spec launcher.Spec,
	report func(progress string)) error {
	starting := sync.OnceFunc(func() { report("Starting mysqld") })
	if st.Phase == phaseReady {
		starting()
		return l.run.ensureUp(ctx, sd, *st)
	}
	if err := l.run.owner.WriteSecret(sd.initFile(), mysqld.AdminSQL(spec.AdminUser, spec.AdminPassword)); err != nil {
		return sd.explain(err)
	}
	fault.Point("launch", "password written")
	for attempt := 1; ; attempt++ {
		err := l.startAndAwait(ctx, sd, *st, starting, "--init-file="+sd.initFile())
		if !errors.Is(err, errExited) || !strings.Contains(err.Error(), portTaken) || attempt == portAttempts {
			return err
		}
		if err := l.choosePort(ctx, sd, st, st.Port); err != nil {
			return err
		}
	}
}

// startAndAwait starts the server, calls starting, and returns when the server is up.
func (l *Launcher) startAndAwait(ctx context.Context, sd serverDir, st state, starting func(),
	options ...string) error {
	s, err := l.run.start(ctx, sd, st, options...)
	if err != nil {
		return err
	}
	defer s.close()
	fault.Point("launch", "process started")
	starting()
	return awaitUp(ctx, sd, s, l.run.cfg.LaunchTimeout)
}

// answerFor checks that the admin account can log in, and then records the server as ready: from now on it is kept
// running. Every start has already checked that root cannot log in.
func (l *Launcher) answerFor(ctx context.Context, sd serverDir, st state,
	spec launcher.Spec) (launcher.Endpoint, error) {
	end, err := l.run.endpoint(sd, st)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	if err := l.checkAdmin(ctx, spec, end); err != nil {
		return launcher.Endpoint{}, err
	}
	fault.Point("launch", "answers")
	if err := os.Remove(sd.initFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return launcher.Endpoint{}, sd.explain(err)
	}
	l.supervisor.settled.Store(sd.id, nil)
	if st.Phase == phaseReady {
		return end, nil
	}
	st.Phase = phaseReady
	return end, sd.saveState(st)
}
