package process

import "time"

// SetStartTimeout is for tests of what happens to servers that do not come up.
func (l *Launcher) SetStartTimeout(limit time.Duration) {
	l.startTimeout, l.cfg.LaunchTimeout = limit, limit
}
