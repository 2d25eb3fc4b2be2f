package files

import (
	"io/fs"
	"path/filepath"
	"sync"
	"time"
)

// WorkInterval is how often an upgrade looks whether the files of the server change.
const WorkInterval = time.Minute

// WatchWork calls works with the latest sentence at every look that finds changes in the files under dir, until end is
// called: a program copies or upgrades them. report is the given one for sentences.
func WatchWork(dir string, every time.Duration, report, works func(string)) (reporting func(string), end func()) {
	var mu sync.Mutex
	latest := ""
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for known := filesOf(dir); ; {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			found := filesOf(dir)
			mu.Lock()
			if found != known && latest != "" {
				works(latest)
			}
			mu.Unlock()
			known = found
		}
	})
	reporting = func(sentence string) {
		mu.Lock()
		defer mu.Unlock()
		latest = sentence
		report(sentence)
	}
	return reporting, sync.OnceFunc(func() { close(stop); watching.Wait() })
}

// fileState changes whenever a file under a directory does.
type fileState struct {
	files, bytes int64
	changed      time.Time // when the last one was
}

// filesOf ignores errors: what is removed meanwhile changes the state as well.
func filesOf(dir string) (s fileState) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			s.files++
			s.bytes += info.Size()
			if info.ModTime().After(s.changed) {
				s.changed = info.ModTime()
			}
		}
		return nil
	})
	return s
}
