package testdrive

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Dir is the process's working directory, where a core would be left.
func (b *Broker) Dir() string { return b.cmd.Dir }

// CoreLimit is how large a core of a running process may be, the soft and the hard limit, in bytes.
func CoreLimit(t testing.TB, pid int) string {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "Max core file size"); ok {
			fields := strings.Fields(rest)
			return fields[0] + " " + fields[1]
		}
	}
	t.Fatalf("no limit of cores in %s", raw)
	return ""
}
