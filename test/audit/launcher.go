package audit

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checkLauncher compares the launcher's directory, processes and ports with the records of dedicated instances, and
// each server's content.
func (a *audit) checkLauncher(ctx context.Context, r records) {
	dir, err := filepath.EvalSymlinks(a.LauncherDir)
	if errors.Is(err, fs.ErrNotExist) {
		dir, err = a.LauncherDir, nil
	}
	if err != nil {
		a.report("The launcher's directory cannot be read: %v.", err)
		return
	}
	var ids []string
	dedicated := slices.DeleteFunc(r.living(), func(i instanceRow) bool { return i.Kind != "dedicated" })
	for _, i := range dedicated {
		ids = append(ids, i.Server)
	}
	instances := filepath.Join(dir, "instances")
	a.compare("directory of a dedicated server", a.list(instances), ids)
	for _, name := range a.list(filepath.Join(dir, "trash")) {
		a.report("Orphan: %s in the launcher's trash.", name)
	}
	for _, name := range a.list(filepath.Join(dir, "templates")) {
		if name == "tmp" || strings.HasSuffix(name, ".unfinished") || strings.HasSuffix(name, ".sql") {
			a.report("Orphan: %s among the launcher's templates.", name)
		}
	}
	processes, err := processesBelow(dir)
	if err != nil {
		a.report("The processes cannot be read: %v.", err)
		return
	}
	a.checkProcesses(instances, ids, processes)
	a.checkPorts(instances, ids, processes)
	for _, i := range dedicated {
		a.checkDedicated(ctx, instances, i, r)
	}
}

// list names what is in a directory; one that is not there is empty.
func (a *audit) list(dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.report("A directory of the launcher cannot be read: %v.", err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// checkProcesses wants one process for each server, and no other.
func (a *audit) checkProcesses(instances string, ids []string, processes []process) {
	running := map[string]int{}
	for _, p := range processes {
		id := p.serverBelow(instances)
		if id == "" || !slices.Contains(ids, id) {
			a.report("Orphan: process %d, %s.", p.pid, strings.Join(p.arguments, " "))
			continue
		}
		running[id]++
	}
	for _, id := range ids {
		if running[id] != 1 {
			a.report("The dedicated server %s has %d processes instead of one.", id, running[id])
		}
	}
}

// checkPorts wants each server to listen on the port that is recorded for it, and on no other.
func (a *audit) checkPorts(instances string, ids []string, processes []process) {
	owners := map[int]string{}
	for _, id := range ids {
		st, err := readState(instances, id)
		if err != nil {
			continue // reported as a discrepancy of its own
		}
		if other, taken := owners[st.Port]; taken {
			a.report("The dedicated servers %s and %s have the same port, %d.", other, id, st.Port)
		}
		owners[st.Port] = id
		for _, p := range processes {
			if p.serverBelow(instances) != id {
				continue
			}
			ports, err := p.listensOn()
			if err != nil {
				a.report("The ports of process %d cannot be read: %v.", p.pid, err)
			} else if !slices.Equal(ports, []int{st.Port}) {
				a.report("The dedicated server %s listens on %v instead of %d.", id, ports, st.Port)
			}
		}
	}
}

// checkDedicated looks into one server and its directory.
func (a *audit) checkDedicated(ctx context.Context, instances string, i instanceRow, r records) {
	st, err := readState(instances, i.Server)
	if err != nil {
		a.report("The state of the dedicated server %s cannot be read: %v.", i.Server, err)
		return
	}
	if st.Phase != "ready" {
		a.report("The dedicated server %s is %s.", i.Server, st.Phase)
	}
	belonging := []string{"data", "tmp", "tls", "state.json", "mysqld.cnf", "mysqld.log", "kept"}
	there := a.list(filepath.Join(instances, i.Server))
	for _, name := range there {
		if !slices.Contains(belonging, name) {
			a.report("Orphan: %s in the directory of the dedicated server %s.", name, i.Server)
		}
	}
	if !slices.Contains(there, "kept") {
		a.report("The dedicated server %s is not recorded to be kept, though it was handed out.", i.Server)
	}
	ca, err := os.ReadFile(filepath.Join(instances, i.Server, "tls", "ca.pem"))
	if err != nil {
		a.report("The certificate of the dedicated server %s cannot be read: %v.", i.Server, err)
		return
	}
	password, err := a.adminPassword(ctx, i.ID)
	if err != nil {
		a.report("The admin password of the dedicated server %s cannot be read: %v.", i.Server, err)
		return
	}
	admin, err := Credentials{Host: "127.0.0.1", Port: st.Port, Username: "broker_admin", Password: password,
		CACertificate: string(ca)}.Open()
	if err == nil {
		defer admin.Close()
		err = a.checkServer(ctx, "the dedicated server "+i.Server, admin, r, []instanceRow{i})
	}
	if err != nil {
		a.report("The dedicated server %s cannot be read: %v.", i.Server, err)
	}
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
