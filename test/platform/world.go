// Package platform is what platforms do: the requests that they send, and what they learn from the responses. It carries
// out operations through brokers, and compares what it was told with what exists.
package platform

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"

	"mysql-broker/test/audit"
	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

// World is a platform with its brokers.
type World struct {
	Send     func(method, path string, body any) (testdrive.Response, error) // to the broker whose turn it is
	Tasks    *pgxpool.Pool                                                   // the brokers' database
	Later    string                                                          // the version that servers of dedicated-large are to have; those of dedicated-small have an older one
	PollEach time.Duration                                                   // how often an operation is polled, and a request repeated
	Lost     func() bool                                                     // whether to send again if Send has failed; nil: never
	Audit    audit.World                                                     // without Reported

	mu       sync.Mutex
	reported audit.Reported
}

// Tell records what the platform now knows of an instance.
func (w *World) Tell(i audit.Instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n, known := range w.reported.Instances {
		if known.ID == i.ID {
			w.reported.Instances[n] = i
			return
		}
	}
	w.reported.Instances = append(w.reported.Instances, i)
}

// TellBinding records what the platform now knows of a binding; it keeps known credentials.
func (w *World) TellBinding(b audit.Binding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n, known := range w.reported.Bindings {
		if known.ID == b.ID {
			if b.Credentials == (audit.Credentials{}) {
				b.Credentials = known.Credentials
			}
			w.reported.Bindings[n] = b
			return
		}
	}
	w.reported.Bindings = append(w.reported.Bindings, b)
}

// TellGone records that an instance is deleted, with its bindings.
func (w *World) TellGone(instanceID string) {
	w.Tell(audit.Instance{ID: instanceID, State: audit.Gone})
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := range w.reported.Bindings {
		if w.reported.Bindings[n].InstanceID == instanceID {
			w.reported.Bindings[n].State = audit.Gone
		}
	}
}

// ForgetGone forgets what is gone. Audits that look at it again and again take longer and longer.
func (w *World) ForgetGone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reported.Instances = slices.DeleteFunc(w.reported.Instances, func(i audit.Instance) bool {
		return i.State == audit.Gone
	})
	w.reported.Bindings = slices.DeleteFunc(w.reported.Bindings, func(b audit.Binding) bool {
		return b.State == audit.Gone
	})
}

// Left are the instances that exist, as far as the platform knows.
func (w *World) Left() []audit.Instance {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.reported.Instances), func(i audit.Instance) bool { return i.State != audit.Exists })
}

// Check compares what the platform knows with what exists.
func (w *World) Check(t *testing.T, when string) {
	w.mu.Lock()
	w.Audit.Reported = w.reported
	w.mu.Unlock()
	for _, sentence := range audit.Check(t.Context(), w.Audit) {
		assert.Fail(t, sentence, when)
	}
}

// Run sends a request through a survivor, and returns what it comes to: see Conclude. On a machine so busy that the
// broker's connections time out, and it answers 5xx, the platform asks again.
func (w *World) Run(q Request) (r testdrive.Response, err error) {
	for deadline := time.Now().Add(limits.Stuck); ; time.Sleep(w.PollEach) { // as platforms try again
		r, err := w.Send(q.Method, q.Path, q.Body)
		switch late := time.Now().After(deadline); {
		case err != nil && (late || w.Lost == nil || !w.Lost()):
			return r, fmt.Errorf("%s: %w", q.Kind, err)
		case err == nil && (late || !testdrive.AsksToRepeat(r)):
			return w.Conclude(q, r)
		}
	}
}

// Conclude returns the final response to a request, after polling where the first one is "accepted". Any other than 2xx
// and 410 is an error, and so is an operation that has failed.
func (w *World) Conclude(q Request, r testdrive.Response) (testdrive.Response, error) {
	switch {
	case r.Status == http.StatusAccepted:
		return w.poll(q, r)
	case r.Status >= 300 && r.Status != http.StatusGone:
		return r, fmt.Errorf("%s was answered %d: %s", q.Kind, r.Status, r.Raw)
	}
	return r, nil
}

func (w *World) poll(q Request, accepted testdrive.Response) (r testdrive.Response, err error) {
	operation := accepted.String("operation")
	path := InstancePath(q.InstanceID) + "/last_operation?operation=" + operation
	for deadline := time.Now().Add(limits.Stuck); time.Now().Before(deadline); time.Sleep(w.PollEach) { // as platforms poll
		r, err = w.Send("GET", path, nil)
		switch lost := err != nil || testdrive.AsksToRepeat(r); {
		case lost && w.Lost != nil && w.Lost():
		case err != nil || r.Status != http.StatusOK:
			return r, fmt.Errorf("poll %s: %d %s %w", operation, r.Status, r.Raw, err)
		case r.String("state") == "succeeded":
			return r, nil
		case r.String("state") == "failed":
			return r, fmt.Errorf("%s failed: %s", q.Kind, r.Raw)
		}
	}
	return r, fmt.Errorf("%s is still in progress after %v", operation, limits.Stuck)
}
