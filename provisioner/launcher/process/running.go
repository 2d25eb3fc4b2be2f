package process

import (
	"context"
	"log/slog"
)

// ensureUp starts a ready server unless it runs, and returns when it is up. The caller holds its lock.
func (l *Launcher) ensureUp(ctx context.Context, sd serverDir, st state) error {
	s, _, err := l.ensureRunning(ctx, sd, st)
	if err != nil {
		return err
	}
	defer s.close()
	return l.awaitUp(ctx, sd, s, l.startTimeout)
}

// ensureRunning returns a ready server, and starts it if it does not run. The caller holds its lock.
func (l *Launcher) ensureRunning(ctx context.Context, sd serverDir, st state) (s *server, started bool, err error) {
	if s, err = findServer(ctx, sd, l.owner); s != nil || err != nil {
		if s != nil {
			l.recordVersion(sd, st)
		}
		return s, false, err
	}
	log, asked := readLogTail(sd), shutDown(readLogEnd(sd, endLogBytes))
	killed := l.groups.killedForMemory(sd.id)
	if s, err = l.start(ctx, sd, st); err != nil {
		return nil, false, err
	}
	level := slog.LevelWarn
	if asked { // for a resize, with the host, or by StopAll or an operator
		level = slog.LevelInfo
	}
	// Its last log lines say why it exited, for example because another program has its port, or because the disk is full.
	attributes := []slog.Attr{slog.String("server", sd.id), slog.Int("port", st.Port), slog.Int("pid", s.pid),
		slog.Any("logged_last", tellingLines(log))}
	if killed { // which it could not log
		attributes = append(attributes, slog.Bool("killed_for_memory", true))
	}
	l.cfg.Logger.LogAttrs(ctx, level, "started a server that did not run", attributes...)
	return s, true, nil
}

// stopIfRunning stops a server, by server.stop or server.kill. The caller holds its lock.
func (l *Launcher) stopIfRunning(ctx context.Context, sd serverDir, end func(*server, context.Context) error) error {
	s, err := findServer(ctx, sd, l.owner)
	if s == nil || err != nil {
		return err
	}
	defer s.close()
	return end(s, ctx)
}
