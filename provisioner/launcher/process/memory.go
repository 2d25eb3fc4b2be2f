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
	"mysql-broker/provisioner/launcher/process/cgroup"
)

const (
	memoryInterval = time.Second
	// memoryPatience is how often in a row a server may lack the memory for one more connection. Nobody could kill the
	// sessions that use the memory: the broker could not log in either.
	memoryPatience = 10
)

// guardMemory kills a server that has had no memory left for some time, as the kernel does when a host runs out of
// memory. The server is then restarted.
func (c care) guardMemory(ctx context.Context, s *server) {
	// An error means that the server has exited.
	sated := func() bool {
		without, err := s.withoutMemory(mysqld.StackKB[c.run.cfg.Binary.Flavour] + 64) // with a guard page and the like
		return err == nil && without
	}
	if persists(ctx, memoryInterval, memoryPatience, sated) {
		c.run.cfg.Logger.Warn("restarting a server that had taken all the memory of its plan", "server", c.sd.id)
		c.kill(ctx, s)
	}
}

// withoutMemory reports whether the server's limit leaves less than that many KiB to reserve. It is false for a server
// that was started without a limit.
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
	if reserved == nil { // the server is exiting
		return false, nil
	}
	most, err := strconv.Atoi(string(limit[1]))
	if err != nil {
		return false, err
	}
	now, err := strconv.Atoi(string(reserved[1]))
	return now+kilobytes > most/1024, err
}

// The formats of proc_pid_limits(5), in bytes, and proc_pid_status(5), in KiB.
var (
	dataLimit    = regexp.MustCompile(`(?m)^Max data size +(\d+) `)
	dataReserved = regexp.MustCompile(`(?m)^VmData:\s+(\d+) kB$`)
)

// limited returns a command that runs a program with a limit of reserved memory. If grouped, the program also enters
// the control group whose cgroup.procs is its file 4. A shell does both to itself and then replaces itself with the
// program: Go cannot set a limit for a child, a root without CAP_SYS_RESOURCE cannot set one for another user's
// process, and systemd's RestrictNamespaces= forbids clone3, which Go would use to start a child in a group. If a step
// fails, for example a limit in a sandbox, the program runs without it.
func limited(limitMB int, grouped bool, path string, args ...string) *exec.Cmd {
	script := `ulimit -d "$0" 2>/dev/null; exec "$@"`
	if grouped {
		script = `echo 0 >&4; exec 4>&-; ` + script // 0 stands for the writing process
	}
	return exec.Command("/bin/sh", append([]string{"-c", script, strconv.Itoa(limitMB * 1024), path}, args...)...)
}

// logMemoryLimit logs what limits the memory of dedicated servers on this host.
func (r *runner) logMemoryLimit() {
	switch {
	case r.cfg.UnlimitedMemory:
	case r.groups == nil:
		r.cfg.Logger.Info("the memory of dedicated servers is limited by RLIMIT_DATA alone", "reason", r.whyUngrouped)
	default:
		r.cfg.Logger.Info("the memory of dedicated servers is limited by RLIMIT_DATA and by control groups",
			"control_group", r.groups.Name)
	}
}

// checkGroup logs a server that no group limits, because a broker without groups started it or it could not enter its
// group.
func (r *runner) checkGroup(sd serverDir, s *server) {
	if r.groups == nil {
		return
	}
	if inside, err := cgroup.Has(sd.id, s.pid); err == nil && !inside { // an error means that the server has exited
		r.cfg.Logger.Warn("a server has no control group of its own until it is started again",
			"server", sd.id, "pid", s.pid)
	}
}
