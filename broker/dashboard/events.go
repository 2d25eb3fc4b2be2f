package dashboard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"mysql-broker/broker/signin"
	"mysql-broker/provisioner/periodic"
	"mysql-broker/store"
)

const (
	// streamTime is the length of a stream. The browser then opens a new one, for which the broker checks again whether
	// the viewer is signed in and what he may see.
	streamTime = time.Minute
	// heartbeat prevents proxies from closing an idle stream. Cloud Foundry's router waits 15 minutes, many others one.
	heartbeat = 15 * time.Second
	// writeTime is the time after which the broker disconnects a browser that reads nothing.
	writeTime = 10 * time.Second
	// pollInterval is how often the broker reads from PostgreSQL whether an open page is out of date.
	pollInterval = time.Second
	// maxStreams limits the pages that this process keeps up to date at the same time. Each takes a connection and about
	// 30 kB of memory.
	maxStreams = 500
	// maxPersonal limits those of one person.
	maxPersonal = 20
)

// event is what an open page receives. Operation is the HTML of the operation. If Structure differs from the page's
// own, more of the page has changed.
type event struct {
	Operation string `json:"operation"`
	Structure string `json:"structure"`
	Gone      bool   `json:"gone"` // it is the last event
}

// structureStamp changes when any part of a page changes, except the operation's progress.
func structureStamp(a store.Activity) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %q %d %d %d", a.State, a.PlanID, a.Latest.ID, a.Latest.State,
		a.Bindings, a.Ready, a.Bound.UnixMicro()))
	return hex.EncodeToString(sum[:6])
}

// events responds with a stream of server-sent events: one at once, and one after each change.
// https://html.spec.whatwg.org/multipage/server-sent-events.html
func (d *Dashboard) events(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if _, ok := d.access(w, r, id); !ok {
		return
	}
	if err := d.stream(w, r, id); err != nil && r.Context().Err() == nil {
		d.Logger.Debug("dashboard: a stream of events ended", "instance_id", id, "error", err)
	}
}

// stream writes events until the browser disconnects, the broker stops, the instance is deleted or streamTime is over.
func (d *Dashboard) stream(w http.ResponseWriter, r *http.Request, id string) error {
	viewer, _ := signin.FromContext(r.Context())
	if !d.streams.begin(viewer.ID) {
		w.Header().Set("Retry-After", retryAfter)
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return nil
	}
	defer d.streams.end(viewer.ID)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would buffer events
	out := http.NewResponseController(w)
	send := func(text string) error {
		limiting := out.SetWriteDeadline(time.Now().Add(writeTime))
		_, err := io.WriteString(w, text)
		return errors.Join(limiting, err, out.Flush())
	}
	// The server's own limits are for short requests. https://pkg.go.dev/net/http#Server.ReadTimeout
	if err := errors.Join(out.SetReadDeadline(time.Time{}), send("retry: 2000\n\n")); err != nil {
		return err
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	end := time.NewTimer(streamTime)
	defer end.Stop()
	page := openPage{id: id, read: d.Store.Reports.Activity, status: periodic.Status{
		What: "dashboard: updating an open page", Log: d.Logger.With("instance_id", id)}}
	for {
		if a, isNews := page.news(r.Context()); isNews {
			text, encoding := eventText(a)
			if err := errors.Join(encoding, send(text)); err != nil || a.State == "" {
				return err
			}
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-d.stopping.Done():
			return nil
		case <-end.C:
			return nil
		case <-beat.C:
			if err := send(":\n\n"); err != nil {
				return err
			}
		case <-poll.C:
		}
	}
}

// streams counts the pages that are kept up to date, by person.
type streams struct {
	mu  sync.Mutex
	all int
	of  map[string]int
}

func (s *streams) begin(person string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= maxStreams || s.of[person] >= maxPersonal {
		return false
	}
	if s.of == nil {
		s.of = map[string]int{}
	}
	s.all++
	s.of[person]++
	return true
}

func (s *streams) end(person string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.of[person]--; s.of[person] == 0 {
		delete(s.of, person)
	}
}

// openPage is the page of an instance that is kept up to date.
type openPage struct {
	id     string
	read   func(ctx context.Context, id string) (store.Activity, error)
	status periodic.Status
	shown  *store.Activity // nil at first
}

// news reads the activity of the instance, and reports whether it differs from what the page shows. While PostgreSQL
// is down, there is no news.
func (p *openPage) news(ctx context.Context) (now store.Activity, isNews bool) {
	now, err := p.read(ctx, p.id)
	p.status.Report(ctx, err)
	if err != nil || p.shown != nil && same(*p.shown, now) {
		return now, false
	}
	p.shown = &now
	return now, true
}

func same(a, b store.Activity) bool {
	return structureStamp(a) == structureStamp(b) && a.Latest.Description == b.Latest.Description
}

func eventText(a store.Activity) (string, error) {
	operation, err := fragment("operation", newOperation(a))
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal(event{Operation: operation, Structure: structureStamp(a), Gone: a.State == ""})
	return fmt.Sprintf("data: %s\n\n", raw), err
}
