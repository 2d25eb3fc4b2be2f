package process

import "time"

// SetStartTimeout is for tests of what happens to servers that do not come up.
func (l *Launcher) SetStartTimeout(limit time.Duration) {
	l.startTimeout, l.cfg.LaunchTimeout = limit, limit
}

// FindControlGroups returns the directory of the group that was delegated to a process.
func FindControlGroups(proc string) (dir string, err error) {
	g, err := findControlGroups(proc)
	if err != nil {
		return "", err
	}
	return g.dir, nil
}

// SetControlGroups has servers in groups below one that was delegated. Where the kernel limits no memory by control
// groups of version 2, they have no limits.
func (c *Config) SetControlGroups(dir, name string, memory bool) {
	c.controlGroups = func() (*controlGroups, error) {
		g := &controlGroups{dir: dir, name: name, limits: groupLimits}
		if memory {
			return g, g.enable()
		}
		g.limits = func(string, int) []groupLimit { return nil }
		return g, g.clear()
	}
}

// MemoryMax is the limit of a server's group, in bytes.
func MemoryMax(flavour string, memoryMB int) string { return groupLimits(flavour, memoryMB)[0].value }
