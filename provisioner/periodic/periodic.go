// Package periodic runs background work at intervals and logs its failures: one line when the work begins to fail, one
// when it works again, however often it runs in between.
package periodic

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Schedule says when work runs. The zero value runs it without a pause.
type Schedule struct {
	// Every is the time from the start of one run to the start of the next. A run that takes longer is followed by the
	// next one at once.
	Every time.Duration
	Delay time.Duration // before the first run
	// Rest makes work that takes long run less often: the pause after a run is at least this many times as long as the
	// run was.
	Rest int
}

// Run calls work as scheduled until ctx ends, and reports its errors to status.
func Run(ctx context.Context, s Schedule, status *Status, work func(context.Context) error) {
	Loop(ctx, s.Delay, func(ctx context.Context) time.Duration {
		start := time.Now()
		status.Report(ctx, work(ctx))
		took := time.Since(start)
		return max(s.Every-took, time.Duration(s.Rest)*took)
	})
}

// Loop calls work after the delay, and then again and again after the pause that work returned, until ctx ends.
func Loop(ctx context.Context, delay time.Duration, work func(context.Context) (pause time.Duration)) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if ctx.Err() != nil { // both were ready, and select picks either
			return
		}
		timer.Reset(work(ctx))
	}
}

// Status logs changes between failing and working. One goroutine at a time may use it.
type Status struct {
	What      string // what works or fails, such as "lease renewal"
	Meanwhile string // what holds while it fails, such as "the last certificate stays in use"; may be empty
	Log       *slog.Logger
	Level     slog.Level // of the line that says that it fails; slog.LevelWarn at least
	// EachError also logs every error whose text differs from that of the error before. It is for errors that say
	// different things to do, and do not vary by themselves.
	EachError bool

	failing string // the text of the last error, "" while it works
}

// Report takes the outcome of a run. An error after the end of ctx says nothing and is ignored.
func (s *Status) Report(ctx context.Context, err error) {
	switch {
	case err == nil:
		if s.failing != "" {
			s.Log.Info(s.What + " works again")
		}
		s.failing = ""
	case ctx.Err() != nil:
	case s.failing == "" || s.EachError && s.failing != err.Error():
		s.failing = err.Error()
		message := s.What + " failed; retrying"
		if s.Meanwhile != "" {
			message += "; meanwhile " + s.Meanwhile
		}
		s.Log.Log(ctx, max(s.Level, slog.LevelWarn), message, "error", err)
	}
}

// Servers reports on several servers, each by a Status of its own. Goroutines may share it.
type Servers struct {
	Status // what each begins as; its log lines get the server's name

	mu      sync.Mutex
	failing map[string]Status // those that fail
}

// Report takes the outcome of a run on a server.
func (s *Servers) Report(ctx context.Context, server string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status, failing := s.failing[server]
	if !failing {
		status = s.Status
		status.Log = status.Log.With("server", server)
	}
	status.Report(ctx, err)
	if status.failing == "" {
		delete(s.failing, server)
		return
	}
	if s.failing == nil {
		s.failing = map[string]Status{}
	}
	s.failing[server] = status
}
