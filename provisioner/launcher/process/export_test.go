package process

import (
	"mysql-broker/provisioner/launcher/process/cgroup"
	"time"
)

// SetStartTimeout is for tests of what happens to servers that do not come up.
func (l *Launcher) SetStartTimeout(limit time.Duration) {
	l.run.startTimeout, l.run.cfg.LaunchTimeout = limit, limit
}

// SetHangInterval is for tests of servers that hang.
func (c *Config) SetHangInterval(interval time.Duration) { c.hangInterval = interval }

// FindControlGroups returns the directory of the group that was delegated to a process.
func FindControlGroups(proc string) (dir string, err error) {
	g, err := cgroup.Find(proc)
	if err != nil {
		return "", err
	}
	return g.Dir, nil
}

// SetControlGroups has servers in groups below one that was delegated. Where the kernel limits no memory by control
// groups of version 2, they have no limits.
func (c *Config) SetControlGroups(dir, name string, memory bool) {
	c.controlGroups = func() (*cgroup.Groups, error) {
		g := &cgroup.Groups{Dir: dir, Name: name, Limits: cgroup.Limits}
		if memory {
			return g, g.Enable()
		}
		g.Limits = func(string, int) []cgroup.Limit { return nil }
		return g, g.Clear()
	}
}

// MemoryMax is the limit of a server's group, in bytes.
func MemoryMax(flavour string, memoryMB int) string { return cgroup.Limits(flavour, memoryMB)[0].Value }
