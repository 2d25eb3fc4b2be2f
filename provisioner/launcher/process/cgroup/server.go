package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mysql-broker/provisioner/launcher/mysqld"
)

// Limit is a file of a control group and its value.
type Limit struct{ File, Value string }

// Limits returns the limits of a server.
//
// Memory is limited to what the server may reserve (mysqld.DataLimitMB), so that a statement that needs more fails
// before the kernel has to kill the server. The group's limit also counts memory that this reservation does not: the
// program, files in the page cache, which the kernel drops when it needs the memory, and the kernel's own memory for
// sockets and the like. There is room for it, because some of the reservation is never used, mostly stacks.
//
// A host that is short of memory may swap out an idle server, but a server at its limit gets no more swap than its plan
// has memory.
func Limits(flavour string, memoryMB int) []Limit {
	megabytes := func(n int) string { return strconv.Itoa(n << 20) }
	return []Limit{
		{"memory.max", megabytes(mysqld.DataLimitMB(flavour, memoryMB))},
		{"memory.swap.max", megabytes(memoryMB)},
		{"memory.oom.group", "1"}, // the server and its children are killed together
	}
}

// groupRemoval is how long a group may stay busy after its server has ended.
const groupRemoval = 5 * time.Second

// Open creates the group of a server that is about to be started, sets its limits, and returns the file by which a
// process enters it. The counters of an existing group are reset. The file is nil if servers have no groups.
func (g *Groups) Open(id, flavour string, memoryMB int) (*os.File, error) {
	if g == nil {
		return nil, nil
	}
	group := serverGroupPrefix + id
	dir := filepath.Join(g.Dir, group)
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EBUSY) {
		return nil, fmt.Errorf("control group: %w", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("control group: %w", err)
	}
	for _, limit := range g.Limits(flavour, memoryMB) {
		err := g.write(filepath.Join(group, limit.File), limit.Value)
		if errors.Is(err, fs.ErrNotExist) && limit.File == "memory.swap.max" { // a kernel without swap
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

// Remove removes the group of a server that has ended for good.
func (g *Groups) Remove(ctx context.Context, id string) error {
	if g == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, groupRemoval)
	defer cancel()
	for {
		err := unix.Rmdir(filepath.Join(g.Dir, serverGroupPrefix+id))
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) { // busy until the kernel has finished the last thread
			return fmt.Errorf("remove the control group of server %s: %w", id, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove the control group of server %s: %w", id, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Sweep removes empty groups that belong to no server, because another broker or an operator's command has destroyed
// it. It lists groups before it asks for the servers' IDs, because a server's directory is created before its group.
func (g *Groups) Sweep(servers func() ([]string, error)) error {
	if g == nil {
		return nil
	}
	groups, err := subgroups(g.Dir)
	if err != nil {
		return err
	}
	ids, err := servers()
	if err != nil {
		return err
	}
	for _, name := range groups {
		id, isServer := strings.CutPrefix(name, serverGroupPrefix)
		if isServer && slices.Contains(ids, id) || !isServer && name != ungrouped {
			continue
		}
		err := unix.Rmdir(filepath.Join(g.Dir, name))
		if err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove the control group %s: %w", name, err)
		}
	}
	return nil
}

// Has reports whether a running server is in a group of its own, possibly one that another broker has created.
func Has(id string, pid int) (bool, error) {
	group, err := groupOfProcess(filepath.Join("/proc", strconv.Itoa(pid)))
	return path.Base(group) == serverGroupPrefix+id, err
}

// KilledForMemory reports whether the kernel killed the last server of the group, at the group's limit or because the
// host had no memory left.
func (g *Groups) KilledForMemory(id string) bool {
	if g == nil {
		return false
	}
	events, err := os.ReadFile(filepath.Join(g.Dir, serverGroupPrefix+id, "memory.events"))
	return err == nil && oomKill.Match(events) // an error means that it had no group
}

var oomKill = regexp.MustCompile(`(?m)^oom_kill [1-9]`)
