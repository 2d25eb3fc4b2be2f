package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
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
// wait for it. MariaDB is left alone: it has no such wait and cannot change the size while it runs.
func (c care) keepRedoLog(ctx context.Context) {
	if c.run.cfg.Binary.Flavour != mysqld.MySQL {
		return
	}
	log := logReader{file: c.sd.logFile(), offset: -1}
	status := &periodic.Status{What: "raising the capacity of a server's redo log", Level: slog.LevelError,
		Log: c.run.cfg.Logger.With("server", c.sd.id)}
	periodic.Run(ctx, periodic.Schedule{Every: redoInterval}, status, func(ctx context.Context) error {
		return c.lookAtRedoLog(ctx, &log)
	})
}

// lookAtRedoLog moves on in the log only after it has acted on what it read, so that nothing is lost if it fails.
func (c care) lookAtRedoLog(ctx context.Context, log *logReader) error {
	before := log.offset
	text, err := log.readNew()
	if err != nil {
		return err
	}
	full := lastRedoFull(text)
	if time.Since(full) > redoNews {
		return nil
	}
	err = c.raiseRedoLog(ctx, full)
	if err != nil {
		log.offset = before
	}
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, errRetired) { // somebody works on it, and may restart it
		return nil
	}
	return err
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

// raiseRedoLog doubles the capacity of a server's redo log, and records that for the next start, unless it has done so
// since the log was full.
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
	if !full.After(st.RedoRaised) {
		return nil
	}
	end, err := c.run.endpoint(c.sd, st)
	if err != nil {
		return err
	}
	capacity := st.redoLogMB()
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
	limited, cancel := context.WithTimeout(ctx, redoTime)
	defer cancel()
	if err := c.run.cfg.Exec(limited, c.sd.id, end,
		fmt.Sprintf("SET GLOBAL innodb_redo_log_capacity = %d", next<<20)); err != nil {
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
