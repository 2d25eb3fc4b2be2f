package task

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"mysql-broker/store"
)

const (
	// waiting is what users read of a task whose server cannot be reached.
	waiting = "The MySQL server does not answer just now. The operation goes on as soon as it does."

	// unanswered begins a LastError: what stands behind it is what reaching the server failed with.
	unanswered = "waits for its server: "

	// minWait is how long a server is waited for even by a task that is older than Config.MaxWait, such as one from a
	// backup of PostgreSQL: after a disaster, servers take their time too.
	minWait = 10 * time.Minute
)

func isUnreachable(err error) bool {
	_, unreachable := errors.AsType[*unreachableError](err)
	return unreachable
}

// awaits tells whether the task is to wait for its server. While a request waits for the work itself, it does not: the
// platform is told soon that it failed.
func (x *execution) awaits(err error) bool {
	return isUnreachable(err) && !(x.inline && x.task.Phase == store.Forward)
}

// overdue tells whether the task has waited for its server for long enough.
func (x *execution) overdue() bool {
	limit := x.runner.cfg.MaxWait(x.task)
	return time.Since(x.task.CreatedAt) >= limit &&
		(x.task.Server == "" || x.runner.servers.silence(x.task.Server) >= min(limit, minWait))
}

// await gives the task back until its server answers. Operators read of it once in the log, and in the task's
// LastError.
func (x *execution) await(err error) {
	x.err = err
	x.runner.cfg.OnRetry(x.task)
	if !strings.Contains(x.task.LastError, unanswered) {
		x.log("a task waits for its server, which cannot be reached; it goes on as soon as the server answers", err,
			slog.String("server", x.task.Server),
			slog.Time("until", x.task.CreatedAt.Add(x.runner.cfg.MaxWait(x.task)).UTC().Truncate(time.Second)))
	}
	description := waiting
	if x.task.Phase == store.Cleanup {
		description = x.task.Description
	}
	delay := x.runner.cfg.Backoff
	delay += time.Duration(rand.Int64N(int64(delay) + 1)) // #nosec G404 -- nobody gains by guessing it
	lastError, ctx := x.lastError(fmt.Errorf(unanswered+"%w", err)), x.lease.ctx
	if err := x.write(ctx, func() error {
		return x.runner.store.Await(ctx, x.lease.held, delay, description, lastError)
	}); err != nil {
		x.log("could not give a task back; it goes on when its lease has run out", err)
	}
}
