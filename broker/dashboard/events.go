package dashboard

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

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
	v, leave, err := d.hub.watch(id)
	if err != nil {
		w.Header().Set("Retry-After", retryAfter)
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would buffer events
	if err := d.stream(w, r, v); err != nil && r.Context().Err() == nil {
		d.Logger.Debug("dashboard: a stream of events ended", "instance_id", id, "error", err)
	}
}

// stream writes events until the browser disconnects, the broker stops, the instance is deleted or streamTime is over.
func (d *Dashboard) stream(w http.ResponseWriter, r *http.Request, v *viewer) error {
	out := http.NewResponseController(w)
	send := func(text string) error {
		return errors.Join(out.SetWriteDeadline(time.Now().Add(writeTime)), write(w, text), out.Flush())
	}
	// The server's own limits are for short requests. https://pkg.go.dev/net/http#Server.ReadTimeout
	if err := errors.Join(out.SetReadDeadline(time.Time{}), send("retry: 2000\n\n")); err != nil {
		return err
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	end := time.NewTimer(streamTime)
	defer end.Stop()
	for {
		var err error
		select {
		case <-r.Context().Done():
			return nil
		case <-d.hub.ctx.Done():
			return nil
		case <-end.C:
			return nil
		case <-beat.C:
			err = send(":\n\n")
		case a := <-v.latest:
			text, encoding := eventText(a)
			if err = errors.Join(encoding, send(text)); err == nil && a.State == "" {
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
}

func write(w http.ResponseWriter, text string) error {
	_, err := w.Write([]byte(text))
	return err
}

func eventText(a store.Activity) (string, error) {
	operation, err := fragment("operation", newOperation(a))
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal(event{Operation: operation, Structure: structureStamp(a), Gone: a.State == ""})
	return fmt.Sprintf("data: %s\n\n", raw), err
}
