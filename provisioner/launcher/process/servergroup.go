package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mysql-broker/provisioner/launcher/mysqld"
)

// groupLimit is a file of a control group, and what it is to hold.
type groupLimit struct{ file, value string }

// groupLimits are those of a server.
//
// Memory is limited to what the server may reserve (mysqld.DataLimitMB), so that a statement which wants more fails
// before the kernel has to kill the server. Some of that is reserved and never used, stacks for the most part; this
// leaves room for what counts here and not there: the program, files in the page cache, which the kernel drops where it
// needs the memory, and its own memory for sockets and the like.
//
// A host that is short of memory may swap a server out that idles, but a server that is at its limit gets no more swap
// than its plan has memory.
func groupLimits(flavour string, memoryMB int) []groupLimit {
	megabytes := func(n int) string { return strconv.Itoa(n << 20) }
	return []groupLimit{
		{"memory.max", megabytes(mysqld.DataLimitMB(flavour, memoryMB))},
		{"memory.swap.max", megabytes(memoryMB)},
		{"memory.oom.group", "1"}, // a server with whatever it has started ends as a whole
	}
}

// groupRemoval is how long a group may stay busy after its server has ended.
const groupRemoval = 5 * time.Second

// openGroup makes the group of a server that is about to be started, with its limits, and returns the file by which a
// process enters it. It counts anew. The file is nil where servers have no groups.
func (g *controlGroups) openGroup(id, flavour string, memoryMB int) (*os.File, error) {
	if g == nil {
		return nil, nil
	}
	group := serverGroupPrefix + id
	dir := filepath.Join(g.dir, group)
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EBUSY) {
		return nil, fmt.Errorf("control group: %w", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("control group: %w", err)
	}
	for _, limit := range g.limits(flavour, memoryMB) {
		err := g.write(filepath.Join(group, limit.file), limit.value)
		if errors.Is(err, fs.ErrNotExist) && limit.file == "memory.swap.max" { // a kernel without swap
			continue
		}
		if err != nil {
			return nil, err
		}
	}
	file, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("control group: %w", err)
	}
	return file, nil
}

// removeGroup removes the group of a server that has ended for good.
func (g *controlGroups) removeGroup(ctx context.Context, id string) error {
	if g == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, groupRemoval)
	defer cancel()
	for {
		err := unix.Rmdir(filepath.Join(g.dir, serverGroupPrefix+id))
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) { // which it is until the kernel has done with the last thread
			return fmt.Errorf("remove the control group of server %s: %w", id, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove the control group of server %s: %w", id, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// sweepGroups removes groups that are empty and belong to no server: another broker, or an operator's command, may have
// destroyed it. Groups are looked for before servers, since a server's directory is there before its group.
func (l *Launcher) sweepGroups() error {
	g := l.groups
	if g == nil {
		return nil
	}
	groups, err := subgroups(g.dir)
	if err != nil {
		return err
	}
	servers, err := l.serverDirs()
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, sd := range servers {
		known[serverGroupPrefix+sd.id] = true
	}
	for _, name := range groups {
		if known[name] || !strings.HasPrefix(name, serverGroupPrefix) && name != ungrouped {
			continue
		}
		err := unix.Rmdir(filepath.Join(g.dir, name))
		if err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove the control group %s: %w", name, err)
		}
	}
	return nil
}

// checkGroup tells operators of a server that no group limits: it was started by a broker that had none, or its group
// could not be entered.
func (l *Launcher) checkGroup(sd serverDir, s *server) {
	if l.groups == nil {
		return
	}
	if inside, err := hasGroup(sd.id, s.pid); err == nil && !inside { // an error means that it has ended
		l.cfg.Logger.Warn("a server has no control group of its own until it is started again",
			"server", sd.id, "pid", s.pid)
	}
}

// hasGroup says whether a server that runs is in a group of its own, be it one that another broker has made.
func hasGroup(id string, pid int) (bool, error) {
	group, err := groupOfProcess(filepath.Join("/proc", strconv.Itoa(pid)))
	return path.Base(group) == serverGroupPrefix+id, err
}

// killedForMemory says whether the kernel killed the server that was last in its group, at the group's limit or because
// the host had no memory left.
func (g *controlGroups) killedForMemory(id string) bool {
	if g == nil {
		return false
	}
	events, err := os.ReadFile(filepath.Join(g.dir, serverGroupPrefix+id, "memory.events"))
	return err == nil && oomKill.Match(events) // an error means that it was in none
}

var oomKill = regexp.MustCompile(`(?m)^oom_kill [1-9]`)
