package task

import (
	"sync"
	"time"

	"mysql-broker/provisioner/fair"
	"mysql-broker/store"
)

// forgetAfter is when a silent server is forgotten that no task has tried to reach again, because it may be deleted.
const forgetAfter = time.Hour

// servers keeps the state of the servers of tasks, so that a sick server delays only its own tasks. No server has more
// than its share of the workers, and a server that does not answer has a single worker at intervals. Tasks without a
// server are not limited. No organization has all workers, neither of a server nor of this process.
type servers struct {
	mu   sync.Mutex
	busy fair.Pool
	all  map[string]*serverState // those that are busy or silent

	// pause is that after which one task tries to reach a server that did not answer. It doubles up to ten times as much.
	pause time.Duration
}

func newServers(cfg Config) servers {
	return servers{busy: fair.Pool{All: cfg.Workers, Each: cfg.ServerWorkers}, all: map[string]*serverState{},
		pause: cfg.Backoff}
}

func holder(t store.Task) fair.Holder {
	return fair.Holder{Server: t.Server, Organization: t.Organization}
}

// serverState is the state of one server.
type serverState struct {
	busy   int       // workers that run its tasks
	since  time.Time // when it was first found silent; zero for one that answers
	last   time.Time // when it was last found silent
	pause  time.Duration
	tryOne time.Time // when a task may try again
}

func (s *serverState) silent() bool { return !s.since.IsZero() }

// free reports whether one more worker may begin.
func (s *serverState) free(share int, now time.Time) bool {
	if s.silent() {
		return s.busy == 0 && !now.Before(s.tryOne)
	}
	return s.busy < share
}

// passedOver lists the servers and organizations whose tasks must not be claimed now: newcomers is for tasks of
// organizations for which no worker is busy, all for those of any.
func (s *servers) passedOver() (newcomers, all store.Passed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for name, state := range s.all {
		if state.busy == 0 && now.Sub(state.last) > forgetAfter {
			delete(s.all, name)
		} else if !state.free(s.busy.Each, now) {
			all.Servers = append(all.Servers, name)
		}
	}
	newcomers.Servers = all.Servers
	holding, full := s.busy.Organizations()
	for _, h := range holding {
		newcomers.Organizations = append(newcomers.Organizations, store.Place(h))
	}
	for _, h := range full {
		all.Organizations = append(all.Organizations, store.Place(h))
	}
	return newcomers, all
}

// state returns the state of a server, which it adds if necessary. The caller holds mu.
func (s *servers) state(name string) *serverState {
	state, known := s.all[name]
	if !known {
		state = &serverState{}
		s.all[name] = state
	}
	return state
}

// begin counts a worker that begins to run a task.
func (s *servers) begin(t store.Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(t)
}

// count is begin. The caller holds mu.
func (s *servers) count(t store.Task) {
	s.busy.Take(holder(t))
	if t.Server != "" {
		s.state(t.Server).busy++
	}
}

// tryBegin is begin if the server and the organization may have one more worker, else it returns false.
func (s *servers) tryBegin(t store.Task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, known := s.all[t.Server]
	if !s.busy.Room(holder(t)) || known && !state.free(s.busy.Each, time.Now()) {
		return false
	}
	s.count(t)
	return true
}

// end uncounts a worker that begin counted.
func (s *servers) end(t store.Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy.Free(holder(t))
	if t.Server == "" {
		return
	}
	state := s.all[t.Server]
	state.busy--
	if state.busy == 0 && !state.silent() {
		delete(s.all, t.Server)
	}
}

// silent records that a server could not be reached.
func (s *servers) silent(name string) {
	if name == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	state, now := s.state(name), time.Now()
	if !state.silent() {
		state.since, state.pause = now, s.pause
	} else if now.After(state.tryOne) { // otherwise it is one of several workers that failed at the same time
		state.pause = min(2*state.pause, 10*s.pause)
	}
	state.last, state.tryOne = now, now.Add(state.pause)
}

// answered records that a server was reached.
func (s *servers) answered(name string) {
	if name == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	state, known := s.all[name]
	if !known || !state.silent() {
		return
	}
	*state = serverState{busy: state.busy}
	if state.busy == 0 {
		delete(s.all, name)
	}
}

// silence returns how long a server has not responded, 0 if it responds.
func (s *servers) silence(name string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, known := s.all[name]
	if !known || !state.silent() {
		return 0
	}
	return time.Since(state.since)
}
