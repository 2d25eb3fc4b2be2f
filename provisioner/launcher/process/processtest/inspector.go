// Package processtest examines what the process launcher runs, for tests: its directory, the processes of this host and
// their ports. It shares no code with the launcher, so that it does not repeat the launcher's mistakes.
package processtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mysql-broker/provisioner/launcher"
)

// Inspector is the audit.Inspector for the launcher with that state directory.
type Inspector struct{ Dir string }

// Inspect implements audit.Inspector.
func (in Inspector) Inspect(ids []string,
	suspended map[string]bool) (found map[string]launcher.Endpoint, problems []string) {
	dir, err := filepath.EvalSymlinks(in.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		dir, err = in.Dir, nil
	}
	if err != nil {
		return nil, []string{fmt.Sprintf("The launcher's directory cannot be read: %v.", err)}
	}
	i := &inspection{instances: filepath.Join(dir, "instances"), ids: ids, suspended: suspended,
		found: map[string]launcher.Endpoint{}}
	i.checkDirectories()
	for _, name := range i.list(filepath.Join(dir, "trash")) {
		i.report("Orphan: %s in the launcher's trash.", name)
	}
	for _, name := range i.ownTemplates(filepath.Join(dir, "templates")) {
		if name == "tmp" || strings.HasSuffix(name, ".unfinished") || strings.HasSuffix(name, ".sql") {
			i.report("Orphan: %s among the launcher's templates.", name)
		}
	}
	processes, err := processesBelow(dir)
	if err != nil {
		i.report("The processes cannot be read: %v.", err)
		return i.found, i.problems
	}
	i.checkProcesses(processes)
	i.checkPorts(processes)
	for _, id := range i.ids {
		i.checkServer(id)
	}
	for id := range i.suspended {
		if st, err := readState(i.instances, id); err != nil || st.Phase != "suspended" || st.Port != 0 {
			i.report("The dedicated server %s is to be suspended, and is %+v, %v.", id, st, err)
		}
	}
	return i.found, i.problems
}

// ownTemplates lists the templates, unless the launcher shares those of others, which may be making one.
func (i *inspection) ownTemplates(dir string) []string {
	if at, err := os.Lstat(dir); err == nil && at.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	return i.list(dir)
}

// inspection collects the differences.
type inspection struct {
	instances string   // the directory of all servers
	ids       []string // of the servers that should exist
	suspended map[string]bool
	found     map[string]launcher.Endpoint
	problems  []string
}

func (i *inspection) report(format string, args ...any) {
	i.problems = append(i.problems, fmt.Sprintf(format, args...))
}

// checkDirectories wants one directory for each server, and no other.
func (i *inspection) checkDirectories() {
	there := i.list(i.instances)
	for _, name := range there {
		if !slices.Contains(i.ids, name) && !i.suspended[name] {
			i.report("Orphan: directory of a dedicated server %s.", name)
		}
	}
	for _, id := range i.ids {
		if !slices.Contains(there, id) {
			i.report("Missing: directory of a dedicated server %s.", id)
		}
	}
}

// list returns the names in a directory; none if it does not exist.
func (i *inspection) list(dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		i.report("A directory of the launcher cannot be read: %v.", err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// checkProcesses wants one process for each server, and no other.
func (i *inspection) checkProcesses(processes []process) {
	running := map[string]int{}
	for _, p := range processes {
		id := p.serverBelow(i.instances)
		if id == "" || !slices.Contains(i.ids, id) {
			i.report("Orphan: process %d, %s.", p.PID, strings.Join(p.arguments, " "))
			continue
		}
		running[id]++
	}
	for _, id := range i.ids {
		if running[id] != 1 {
			i.report("The dedicated server %s has %d processes instead of one.", id, running[id])
		}
	}
}

// checkPorts wants each server to listen on the port that is recorded for it, and on no other.
func (i *inspection) checkPorts(processes []process) {
	owners := map[int]string{}
	for _, id := range i.ids {
		st, err := readState(i.instances, id)
		if err != nil {
			continue // reported as a discrepancy of its own
		}
		if other, taken := owners[st.Port]; taken {
			i.report("The dedicated servers %s and %s have the same port, %d.", other, id, st.Port)
		}
		owners[st.Port] = id
		for _, p := range processes {
			if p.serverBelow(i.instances) != id {
				continue
			}
			ports, err := p.listensOn()
			if err != nil {
				i.report("The ports of process %d cannot be read: %v.", p.PID, err)
			} else if !slices.Equal(ports, []int{st.Port}) {
				i.report("The dedicated server %s listens on %v instead of %d.", id, ports, st.Port)
			}
		}
	}
}

// checkServer looks into the directory of one server.
func (i *inspection) checkServer(id string) {
	st, err := readState(i.instances, id)
	if err != nil {
		i.report("The state of the dedicated server %s cannot be read: %v.", id, err)
		return
	}
	if st.Phase != "ready" {
		i.report("The dedicated server %s is %s.", id, st.Phase)
	}
	belonging := []string{"data", "tmp", "tls", "state.json", "mysqld.cnf", "mysqld.log", "kept", "record"}
	there := i.list(filepath.Join(i.instances, id))
	for _, name := range there {
		if !slices.Contains(belonging, name) {
			i.report("Orphan: %s in the directory of the dedicated server %s.", name, id)
		}
	}
	if !slices.Contains(there, "kept") {
		i.report("The dedicated server %s is not recorded to be kept, though it was handed out.", id)
	}
	ca, err := os.ReadFile(filepath.Join(i.instances, id, "tls", "ca.pem"))
	if err != nil {
		i.report("The certificate of the dedicated server %s cannot be read: %v.", id, err)
		return
	}
	i.found[id] = launcher.Endpoint{Host: "127.0.0.1", Port: st.Port, CACertificate: ca}
}

// state is what the launcher records of a server.
type state struct {
	Phase string `json:"phase"`
	Port  int    `json:"port"`
}

func readState(instances, id string) (st state, err error) {
	raw, err := os.ReadFile(filepath.Join(instances, id, "state.json"))
	if err != nil {
		return st, err
	}
	return st, json.Unmarshal(raw, &st)
}
