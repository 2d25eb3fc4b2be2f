package process

import "context"

// ensureUp starts a ready server unless it runs, and returns when it is up. The caller holds its lock.
func (l *Launcher) ensureUp(ctx context.Context, inst instance, st state) error {
	s, err := l.ensureRunning(ctx, inst, st)
	if err != nil {
		return err
	}
	defer s.close()
	return l.awaitUp(ctx, inst, s, l.startTimeout)
}

// ensureRunning finds a ready server or starts it. The caller holds its lock.
func (l *Launcher) ensureRunning(ctx context.Context, inst instance, st state) (*server, error) {
	s, err := findServer(ctx, inst, l.owner)
	if s != nil || err != nil {
		return s, err
	}
	ended := logTail(inst) // why, for operators: a port that a stranger has, a full disk
	if s, err = l.start(inst, st); err != nil {
		return nil, err
	}
	l.cfg.Logger.Warn("started a server that did not run", "server", inst.id, "port", st.Port, "pid", s.pid,
		"logged_last", ended)
	return s, nil
}

// stopIfRunning ends a server, by server.stop or server.kill. The caller holds its lock.
func (l *Launcher) stopIfRunning(ctx context.Context, inst instance, end func(*server, context.Context) error) error {
	s, err := findServer(ctx, inst, l.owner)
	if s == nil || err != nil {
		return err
	}
	defer s.close()
	return end(s, ctx)
}
