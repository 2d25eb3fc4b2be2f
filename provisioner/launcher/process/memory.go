package process

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"mysql-broker/provisioner/launcher/mysqld"
)

const (
	memoryInterval = time.Second
	// memoryPatience is how long a server may be without memory for one more connection. Nobody could end the sessions
	// that hold it: the broker could not log in either.
	memoryPatience = 10 * time.Second
)

// guardMemory ends a server that has had no memory left for memoryPatience, as the kernel would where it runs out of
// it; it is started again. It returns when the context ends.
func (l *Launcher) guardMemory(ctx context.Context, sd serverDir, s *server) {
	tick := time.NewTicker(memoryInterval)
	defer tick.Stop()
	var since time.Time // when it was first found without
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		without, err := s.withoutMemory(mysqld.StackKB[l.cfg.Binary.Flavour] + 64) // with a guard page and the like
		switch {
		case err != nil || !without: // an error means that it has ended
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > memoryPatience:
			l.cfg.Logger.Warn("a server that had taken all the memory of its plan is started again", "server", sd.id)
			if err := s.kill(ctx); err != nil && ctx.Err() == nil {
				l.cfg.Logger.Error("a server without memory cannot be ended", "server", sd.id, "error", err)
			}
			return
		}
	}
}

// withoutMemory says whether the server may not reserve so many KiB more. One that was started without a limit always
// may.
func (s *server) withoutMemory(kilobytes int) (bool, error) {
	dir := filepath.Join("/proc", strconv.Itoa(s.pid))
	limits, err := os.ReadFile(filepath.Join(dir, "limits"))
	if err != nil {
		return false, err
	}
	limit := dataLimit.FindSubmatch(limits)
	if limit == nil {
		return false, nil
	}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return false, err
	}
	reserved := dataReserved.FindSubmatch(status)
	if reserved == nil { // it is ending
		return false, nil
	}
	most, err := strconv.Atoi(string(limit[1]))
	if err != nil {
		return false, err
	}
	now, err := strconv.Atoi(string(reserved[1]))
	return now+kilobytes > most/1024, err
}

// As proc_pid_limits(5) has it, in bytes, and proc_pid_status(5), in KiB.
var (
	dataLimit    = regexp.MustCompile(`(?m)^Max data size +(\d+) `)
	dataReserved = regexp.MustCompile(`(?m)^VmData:\s+(\d+) kB$`)
)

// limited is the command that runs a program with a limit of reserved memory and, if it is to have a group, in the
// control group of which the file cgroup.procs is its file 4. Go cannot set a limit for a child, and a root that lacks
// CAP_SYS_RESOURCE cannot for another user's process; clone3, by which Go would start a child in a group, is forbidden
// by systemd's RestrictNamespaces=. The shell does both to itself and replaces itself by the program. Where either
// fails, as a limit in a sandbox may, the program runs without.
func limited(limitMB int, grouped bool, path string, args ...string) *exec.Cmd {
	script := `ulimit -d "$0" 2>/dev/null; exec "$@"`
	if grouped {
		script = `echo 0 >&4; exec 4>&-; ` + script // 0 is who writes it
	}
	return exec.Command("/bin/sh", append([]string{"-c", script, strconv.Itoa(limitMB * 1024), path}, args...)...)
}
