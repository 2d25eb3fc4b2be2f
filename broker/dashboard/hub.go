package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"mysql-broker/provisioner/periodic"
	"mysql-broker/store"
)

const (
	watchEach = time.Second // how often the hub queries the store
	// watchAtOnce is the shortest pause between queries, after which a new viewer causes the next one.
	watchAtOnce = 200 * time.Millisecond
	// maxStreams limits the open pages that this process updates at a time. Each needs a connection and about 30 kB of
	// memory.
	maxStreams = 500
)

var errTooManyStreams = errors.New("too many pages are open")

// hub sends viewers the activity on instances. While there are viewers, one statement in each interval reads all
// instances that they view. Without viewers it sends no statements.
type hub struct {
	read func(ctx context.Context, ids []string) ([]store.Activity, error)
	log  *slog.Logger

	ctx    context.Context // ends with close
	cancel context.CancelFunc
	wake   chan struct{} // has an entry while a new viewer waits for its first update

	mu      sync.Mutex
	viewers map[*viewer]struct{}
	running bool
}

// viewer is one open page.
type viewer struct {
	instanceID string
	latest     chan store.Activity // the newest update that the page has not received
	told       *store.Activity
}

func newHub(read func(context.Context, []string) ([]store.Activity, error), log *slog.Logger) *hub {
	h := &hub{read: read, log: log, wake: make(chan struct{}, 1), viewers: map[*viewer]struct{}{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

func (h *hub) close() { h.cancel() }

// watch starts to send the activity on an instance: at once, and after each change. Call leave at the end.
func (h *hub) watch(instanceID string) (v *viewer, leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.viewers) >= maxStreams {
		return nil, nil, errTooManyStreams
	}
	v = &viewer{instanceID: instanceID, latest: make(chan store.Activity, 1)}
	h.viewers[v] = struct{}{}
	if !h.running {
		h.running = true
		go h.run()
	}
	select {
	case h.wake <- struct{}{}:
	default:
	}
	return v, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.viewers, v)
	}, nil
}

// run queries the store until there are no viewers.
func (h *hub) run() {
	tick := time.NewTicker(watchEach)
	defer tick.Stop()
	var last time.Time
	status := periodic.Status{What: "dashboard: updating open pages", Log: h.log}
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-tick.C:
		case <-h.wake:
			if h.pause(watchAtOnce - time.Since(last)) {
				return
			}
		}
		ids := h.watched()
		if ids == nil {
			return
		}
		last = time.Now()
		all, err := h.read(h.ctx, ids)
		status.Report(h.ctx, err)
		for _, a := range all {
			h.tell(a)
		}
	}
}

// pause waits, and reports whether the hub was closed meanwhile.
func (h *hub) pause(d time.Duration) (closed bool) {
	select {
	case <-h.ctx.Done():
		return true
	case <-time.After(d):
		return false
	}
}

// watched lists the instances that have viewers; nil ends run.
func (h *hub) watched() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := map[string]struct{}{}
	for v := range h.viewers {
		ids[v.instanceID] = struct{}{}
	}
	h.running = len(ids) > 0
	return slices.Collect(maps.Keys(ids))
}

// tell sends updates to viewers. A slow viewer gets only the newest.
func (h *hub) tell(a store.Activity) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for v := range h.viewers {
		if v.instanceID != a.InstanceID || v.told != nil && same(*v.told, a) {
			continue
		}
		v.told = &a
		select {
		case <-v.latest:
		default:
		}
		v.latest <- a
	}
}

func same(a, b store.Activity) bool {
	return structureStamp(a) == structureStamp(b) && a.Latest.Description == b.Latest.Description
}
