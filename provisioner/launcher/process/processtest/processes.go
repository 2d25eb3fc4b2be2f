package processtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
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

// listening is the state of a listening socket in /proc/net/tcp.
// https://man7.org/linux/man-pages/man5/proc_net_tcp.5.html
const listening = "0A"

// listensOn lists the TCP ports that the process listens on.
func (p process) listensOn() (ports []int, err error) {
	own, err := p.FileDescriptorTargets()
	if err != nil {
		return nil, err
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		raw, err := os.ReadFile(table)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // this host has no IPv6
			return nil, err
		}
		for line := range strings.Lines(string(raw)) {
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[3] != listening || !slices.Contains(own, "socket:["+fields[9]+"]") {
				continue
			}
			_, hex, _ := strings.Cut(fields[1], ":")
			port, err := strconv.ParseUint(hex, 16, 16)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", table, err)
			}
			ports = append(ports, int(port))
		}
	}
	slices.Sort(ports)
	return ports, nil
}
