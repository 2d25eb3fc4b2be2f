// Package cgroup limits the memory of servers by control groups (cgroup v2) of their own, where systemd has delegated a
// part of the tree to the broker.
package cgroup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Groups is a part of the control group tree (cgroup v2) that the broker may arrange, as systemd delegates one
// to a unit with Delegate= and DelegateSubgroup=. The broker is in one of its groups. Each dedicated server is in a
// group of its own, with a memory limit. If nothing is delegated, *Groups is nil and servers stay in the broker's
// group.
//
//	mysql-broker.service    delegated; once its groups have memory limits, the kernel allows no processes here
//	├─ broker               where systemd puts the broker
//	├─ server-ID            one dedicated server
//	└─ ungrouped            servers started here by a broker that had nothing delegated
//
// https://docs.kernel.org/admin-guide/cgroup-v2.html, https://systemd.io/CGROUP_DELEGATION
type Groups struct {
	Dir  string // where the delegated group is mounted
	Name string // the delegated group in the tree, as /proc/PID/cgroup has it

	Limits func(flavour string, memoryMB int) []Limit // the function Limits, except in tests
}

const (
	serverGroupPrefix = "server-"
	ungrouped         = "ungrouped"
)

// Use is Find, and prepares the delegated group for servers in groups of their own.
func Use(proc string) (*Groups, error) {
	g, err := Find(proc)
	if err == nil {
		err = g.Enable()
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Find finds the group that was delegated to a process, which is given by its directory in /proc. The
// error says why there is none.
func Find(proc string) (*Groups, error) {
	own, err := groupOfProcess(proc)
	if err != nil {
		return nil, err
	}
	ownDir, err := mountedGroup(proc, own)
	if err != nil {
		return nil, err
	}
	g := &Groups{Dir: filepath.Dir(ownDir), Name: path.Dir(own), Limits: Limits}
	if err := g.checkDelegated(); err != nil {
		return nil, err
	}
	if below, err := subgroups(ownDir); err != nil || len(below) > 0 {
		return nil, errors.Join(fmt.Errorf("the control group %s has groups below it", own), err)
	}
	controllers, err := os.ReadFile(filepath.Join(g.Dir, "cgroup.controllers"))
	if err != nil {
		return nil, fmt.Errorf("control group %s: %w", g.Name, err)
	}
	if !slices.Contains(strings.Fields(string(controllers)), "memory") {
		return nil, fmt.Errorf("the control group %s cannot limit memory", g.Name)
	}
	return g, nil
}

// checkDelegated returns an error unless systemd has delegated the group to the broker and the broker may change it.
// Permissions alone do not show this: root may change any group, including systemd's own.
func (g *Groups) checkDelegated() error {
	mark := make([]byte, 8)
	n, err := unix.Getxattr(g.Dir, "user.delegate", mark)
	if err != nil || string(mark[:n]) != "1" {
		return fmt.Errorf("systemd has not delegated the control group %s, which takes systemd 254 or later, and "+
			"Delegate=memory and DelegateSubgroup= in the unit", g.Name)
	}
	for _, file := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
		if err := unix.Access(filepath.Join(g.Dir, file), unix.W_OK); err != nil {
			return fmt.Errorf("change the control group %s: %w", g.Name, err)
		}
	}
	return nil
}

// groupOfProcess returns the control group of a process, as named in its file cgroup.
// https://man7.org/linux/man-pages/man7/cgroups.7.html
func groupOfProcess(proc string) (string, error) {
	text, err := os.ReadFile(filepath.Join(proc, "cgroup"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if group, found := strings.CutPrefix(line, "0::"); found {
			return strings.TrimSuffix(group, "\n"), nil
		}
	}
	return "", errors.New("the host has no control groups of version 2")
}

// mountedGroup returns the directory of a control group whose parent is mounted as well.
// https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html
func mountedGroup(proc, group string) (string, error) {
	notMounted := fmt.Errorf("no group above the control group %s is mounted", group)
	if path.Clean(group) != group { // outside the namespace of the process, "/.." for example
		return "", notMounted
	}
	text, err := os.ReadFile(filepath.Join(proc, "mountinfo"))
	if err != nil {
		return "", err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		mount, filesystem, _ := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(mount)
		if len(fields) < 5 || !strings.HasPrefix(filesystem, "cgroup2 ") {
			continue
		}
		root, point := fields[3], fields[4]
		below, err := filepath.Rel(root, group)
		if err == nil && below != "." && filepath.IsLocal(below) {
			return filepath.Join(point, below), nil
		}
	}
	return "", notMounted
}

// Enable lets the groups below the delegated one limit memory. The kernel refuses that while the delegated group itself
// contains processes, so those that an earlier broker started there are moved to a group of their own, without limits.
func (g *Groups) Enable() error {
	for range 10 { // processes may start others in between
		err := g.write("cgroup.subtree_control", "+memory")
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		if err := g.Clear(); err != nil {
			return err
		}
	}
	return fmt.Errorf("new processes keep appearing in the control group %s", g.Name)
}

// Clear moves all processes that are in the delegated group itself out of it.
func (g *Groups) Clear() error {
	if err := os.Mkdir(filepath.Join(g.Dir, ungrouped), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("control group: %w", err)
	}
	processes, err := os.ReadFile(filepath.Join(g.Dir, "cgroup.procs"))
	if err != nil {
		return fmt.Errorf("control group: %w", err)
	}
	for _, pid := range strings.Fields(string(processes)) {
		err := g.write(filepath.Join(ungrouped, "cgroup.procs"), pid)
		if err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: the process has ended
			return err
		}
	}
	return nil
}

// write writes to a file in or below the delegated group. Such files can be neither created nor truncated.
func (g *Groups) write(file, value string) error {
	f, err := os.OpenFile(filepath.Join(g.Dir, file), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("control group: %w", err)
	}
	_, err = f.WriteString(value)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("control group: %w", err)
	}
	return nil
}

// subgroups returns the names of the groups below one.
func subgroups(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("control group: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
