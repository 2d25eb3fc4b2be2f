package memory

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// Limit makes Go's runtime keep within what the process may have, and returns that, or 0 if nothing limits it. It is
// GOMEMLIMIT if that is set. Else it is nine tenths of the smallest limit of the process's control groups, or of
// MEMORY_LIMIT, as Cloud Foundry sets it: the rest is for what the runtime does not count, such as the program's file.
// https://docs.cloudfoundry.org/devguide/deploy-apps/environment-variable.html#MEMORY-LIMIT
func Limit(getenv func(string) string) int64 {
	if set := debug.SetMemoryLimit(-1); set != math.MaxInt64 {
		return set
	}
	limit := ofGroups("/proc/self/cgroup", "/sys/fs/cgroup")
	megabytes, err := strconv.ParseInt(strings.TrimSuffix(strings.ToLower(getenv("MEMORY_LIMIT")), "m"), 10, 32)
	if err == nil && megabytes > 0 {
		limit = min(limit, megabytes<<20)
	}
	if limit == math.MaxInt64 {
		return 0
	}
	limit = limit / 10 * 9
	debug.SetMemoryLimit(limit)
	return limit
}

// ofGroups is the smallest limit of the control groups that a file like /proc/self/cgroup names, and of those above
// them. A container may see its own group as the root of what is mounted.
// https://docs.kernel.org/admin-guide/cgroup-v2.html#memory
// https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
func ofGroups(list, mounted string) int64 {
	limit := int64(math.MaxInt64)
	groups, err := os.ReadFile(list)
	if err != nil {
		return limit
	}
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		root, file := mounted, "memory.max"
		switch fields[1] {
		case "":
		case "memory":
			root, file = filepath.Join(mounted, "memory"), "memory.limit_in_bytes"
		default:
			continue
		}
		for path := filepath.Join("/", fields[2]); ; path = filepath.Dir(path) {
			text, _ := os.ReadFile(filepath.Join(root, path, file)) // "" is no number
			// No limit is "max", or all pages that a 64-bit address can have.
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n < 1<<60 {
				limit = min(limit, n)
			}
			if path == "/" {
				break
			}
		}
	}
	return limit
}
