package processtest

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/prometheus/procfs"
)

// process is one of this host.
type process struct {
	procfs.Proc
	arguments []string
}

// processesBelow returns the processes with a path below dir among their arguments, including the programs of
// interrupted operations.
func processesBelow(dir string) (found []process, err error) {
	all, err := procfs.AllProcs()
	for _, p := range all {
		arguments, err := p.CmdLine()
		if err == nil && strings.Contains(strings.Join(arguments, " "), dir+"/") { // else it has exited, or is another's
			found = append(found, process{p, arguments})
		}
	}
	return found, err
}

// serverBelow returns the id of the dedicated server that the process is; "" if it is none.
func (p process) serverBelow(instances string) string {
	if len(p.arguments) < 2 {
		return ""
	}
	rest, found := strings.CutPrefix(p.arguments[1], "--defaults-file="+instances+"/")
	id, name, _ := strings.Cut(rest, "/")
	if !found || name != "mysqld.cnf" {
		return ""
	}
	return id
}

// listening is the state of a listening socket.
const listening = 0x0A

// listensOn lists the TCP ports that the process listens on.
func (p process) listensOn() (ports []int, err error) {
	own, err := p.FileDescriptorTargets()
	if err != nil {
		return nil, err
	}
	host, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, err
	}
	sockets, err := host.NetTCP()
	if err != nil {
		return nil, err
	}
	more, err := host.NetTCP6()
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // this host has no IPv6
		return nil, err
	}
	for _, s := range append(sockets, more...) {
		if s.St == listening && slices.Contains(own, fmt.Sprintf("socket:[%d]", s.Inode)) {
			ports = append(ports, int(s.LocalPort))
		}
	}
	slices.Sort(ports)
	return ports, nil
}
