package testdrive

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Processes lists the command lines of the running processes of this host that name something below dir, by process id.
func Processes(t testing.TB, dir string) map[int]string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]string{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(raw, []byte(dir+"/")) {
			continue // it has ended, or belongs to another user
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		found[pid] = strings.ReplaceAll(string(bytes.TrimRight(raw, "\x00")), "\x00", " ")
	}
	return found
}

// Mysqlds lists the process ids of the servers that a launcher runs under dir, in order.
func Mysqlds(t testing.TB, dir string) []int {
	t.Helper()
	var pids []int
	for pid, command := range Processes(t, dir) {
		program, _, _ := strings.Cut(command, " ")
		if name := filepath.Base(program); name == "mysqld" || name == "mariadbd" {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// SignalMysqlds sends a signal to all servers that a launcher runs under dir.
func SignalMysqlds(t testing.TB, dir string, s syscall.Signal) {
	t.Helper()
	for _, pid := range Mysqlds(t, dir) {
		if err := syscall.Kill(pid, s); err != nil {
			t.Fatal(err)
		}
	}
}
