package task

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"mysql-broker/store"
)

const (
	// waiting is the description of a task whose server cannot be reached.
	waiting = "The MySQL server does not answer just now. The operation continues as soon as it does."

	// unanswered is the prefix of the error in LastError.
	unanswered = "waits for its server: "

	// minWait is how long even a task that is older than Config.MaxWait waits for its server. A task may be that old
	// because PostgreSQL was restored from a backup, and servers may come back late after a disaster.
	minWait = 10 * time.Minute
)

// awaits reports whether the task must wait for its server. While a request waits for the steps, it does not wait, so
// that the platform soon gets the failure.
func (x *execution) awaits(err error) bool {
	return is[*unreachableError](err) && !(x.inline && x.task.Phase == store.Forward)
}

// overdue reports whether the task has waited too long for its server.
func (x *execution) overdue() bool {
	limit := x.runner.cfg.MaxWait(x.task)
	return x.now().Sub(x.task.CreatedAt) >= limit &&
		(x.task.Server == "" || x.runner.servers.silence(x.task.Server) >= min(limit, minWait))
}

// await releases the lease until the server answers. The log has one line about it, and LastError the reason.
func (x *execution) await(err error) {
	x.err = err
	x.runner.cfg.OnRetry(x.task)
	if !strings.Contains(x.task.LastError, unanswered) {
		x.log("a task waits for its server, which cannot be reached; it continues as soon as the server answers", err,
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
	x.giveBack("could not release a waiting task; it continues when its lease has expired", func() error {
		return x.runner.store.Queue.Await(ctx, x.lease.held, delay, description, lastError)
	})
}
