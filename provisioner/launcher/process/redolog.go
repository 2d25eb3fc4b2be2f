package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process/files"
	"mysql-broker/provisioner/periodic"
)

const (
	redoInterval = time.Second     // how often the log of a server is read
	redoNews     = time.Minute     // older messages are about a stall that is over or was handled
	redoTime     = 5 * time.Second // for a server to take the larger capacity

	// mostRedoMB is the largest size that a redo log is raised to, unless the plan's memory is larger.
	mostRedoMB = 512
)

// redoFull matches what MySQL logs while statements wait for room in the redo log. If these statements themselves
// prevent the room from being freed, they wait forever; a larger capacity lets them continue. The numbers of the
// messages differ between versions.
// https://dev.mysql.com/doc/refman/8.4/en/innodb-redo-log.html#innodb-modifying-redo-log-capacity
var redoFull = regexp.MustCompile(`\[MY-013059\]|\[MY-013865\]|unable to reserve space in redo log|` +
	`waiting for a new redo log file`)

// keepRedoLog watches a server's log until the context ends, and raises the capacity of the redo log when statements
// wait for it. A server started by a broker of an earlier release first gets the present default. MariaDB is left
// alone: it has no such wait and cannot change the size while it runs.
func (c care) keepRedoLog(ctx context.Context) {
	if c.run.cfg.Binary.Flavour != mysqld.MySQL {
		return
	}
	log := logReader{file: c.sd.logFile(), offset: -1}
	outdated := true
	status := &periodic.Status{What: "raising the capacity of a server's redo log", Level: slog.LevelError,
		Log: c.run.cfg.Logger.With("server", c.sd.id)}
	periodic.Run(ctx, periodic.Schedule{Every: redoInterval}, status, func(ctx context.Context) error {
		return c.lookAtRedoLog(ctx, &log, &outdated)
	})
}

// lookAtRedoLog moves on in the log only after it has acted on what it read, so that nothing is lost if it fails.
func (c care) lookAtRedoLog(ctx context.Context, log *logReader, outdated *bool) error {
	before := log.offset
	text, err := log.readNew()
	if err != nil {
		return err
	}
	full := lastRedoFull(text)
	if time.Since(full) > redoNews {
		full = time.Time{}
	}
	if full.IsZero() && !*outdated {
		return nil
	}
	err = c.raiseRedoLog(ctx, full)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, errRetired) { // somebody works on it, and may restart it
		log.offset = before
		return nil
	}
	if err != nil {
		log.offset = before
		return err
	}
	*outdated = false
	return nil
}

// lastRedoFull returns when the last such message was logged; zero if there is none.
func lastRedoFull(log string) (at time.Time) {
	for line := range strings.Lines(log) {
		if !redoFull.MatchString(line) {
			continue
		}
		stamp, _, _ := strings.Cut(line, " ")
		if t, err := time.Parse(time.RFC3339Nano, stamp); err == nil {
			at = t
		}
	}
	return at
}

// raiseRedoLog sets a server's redo log to its recorded capacity. If the log was full since it was last raised, it
// doubles the capacity and records that for the next start. full is when the log was last full; zero if it was not.
func (c care) raiseRedoLog(ctx context.Context, full time.Time) error {
	lock, err := files.TryLock(c.sd.dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	st, err := c.sd.loadState()
	if err != nil {
		return err
	}
	if st.Phase != phaseReady {
		return errRetired
	}
	end, err := c.run.endpoint(c.sd, st)
	if err != nil {
		return err
	}
	capacity := st.redoLogMB()
	if !full.After(st.RedoRaised) {
		if started, err := startedRedoMB(c.sd); err != nil || started >= capacity || c.run.cfg.Exec == nil {
			return err
		}
		return c.setRedoLog(ctx, end, capacity)
	}
	next := min(2*capacity, max(mostRedoMB, st.MemoryMB))
	if next <= capacity {
		c.run.cfg.Logger.Error("a server's redo log is full, and as large as the broker makes it", "server", c.sd.id,
			"capacity_mb", capacity)
		return nil
	}
	if free, err := files.SpaceLeft(c.sd.dir); err != nil || free < uint64(next-capacity+startSpaceMB)<<20 {
		return errors.Join(err, fmt.Errorf("its redo log is full, and the disk has %d MiB left: %w", free>>20,
			launcher.ErrNoRoom))
	}
	if c.run.cfg.Exec == nil {
		return errors.New("its redo log is full, and no account of this broker may log in to it")
	}
	if err := c.setRedoLog(ctx, end, next); err != nil {
		return err
	}
	st.RedoMB, st.RedoRaised = next, time.Now()
	if err := c.sd.saveState(st); err != nil {
		return err
	}
	c.run.cfg.Logger.Warn("the redo log of a server was full; its capacity is larger now", "server", c.sd.id,
		"capacity_mb", next)
	if c.run.cfg.OnRedoFull != nil {
		c.run.cfg.OnRedoFull()
	}
	return nil
}

func (c care) setRedoLog(ctx context.Context, end launcher.Endpoint, capacity int) error {
	ctx, cancel := context.WithTimeout(ctx, redoTime)
	defer cancel()
	return c.run.cfg.Exec(ctx, c.sd.id, end, fmt.Sprintf("SET GLOBAL innodb_redo_log_capacity = %d", capacity<<20))
}

var redoSetting = regexp.MustCompile(`(?m)^loose-innodb-redo-log-capacity=(\d+)M$`)

// startedRedoMB returns the capacity that a server was started with.
func startedRedoMB(sd serverDir) (int, error) {
	settings, err := os.ReadFile(sd.settingsFile())
	if err != nil {
		return 0, err
	}
	m := redoSetting.FindSubmatch(settings)
	if m == nil {
		return 0, nil
	}
	return strconv.Atoi(string(m[1]))
}
