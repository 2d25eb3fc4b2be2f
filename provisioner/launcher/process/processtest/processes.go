package processtest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// process is one of this host.
type process struct {
	pid       int
	arguments []string
}

// processesBelow returns the processes with a path below dir among their arguments, including the programs of
// interrupted operations.
func processesBelow(dir string) (found []process, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || !bytes.Contains(raw, []byte(dir+"/")) {
			continue // it has exited, or is another's
		}
		if err != nil {
			return nil, err
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		found = append(found, process{pid, strings.Split(strings.TrimRight(string(raw), "\x00"), "\x00")})
	}
	return found, nil
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
	dir := filepath.Join("/proc", strconv.Itoa(p.pid), "fd")
	links, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	own := map[string]bool{} // by inode
	for _, link := range links {
		target, err := os.Readlink(filepath.Join(dir, link.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		if inode, isSocket := strings.CutPrefix(target, "socket:["); isSocket {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		raw, err := os.ReadFile(table)
		if errors.Is(err, fs.ErrNotExist) {
			continue // this host has no IPv6
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(raw)) {
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[3] != listening || !own[fields[9]] {
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
