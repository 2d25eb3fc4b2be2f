package kubernetes_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"testing"

	"mysql-broker/provisioner/launcher"
)

// work is a call of a launcher that is repeated until it has ended.
type work = func(l launcher.Launcher, spec launcher.Spec) func(ctx context.Context) (launcher.Endpoint, error)

// pausedBroker is a broker that was paused before a request, which reaches the API server when it continues.
type pausedBroker struct {
	before  string
	proceed func()
	paused  chan struct{} // closed when it is
	sent    chan struct{} // closed when the request was carried out
	ended   chan error    // the result of the call
}

// varying is what differs between requests that are repeated.
var varying = regexp.MustCompile(`works\\*":\\*"?\d+|"resourceVersion":"\d+"|since\\*":\\*"[^"\\]+`)

// pauseEach has brokers do some work: each one is paused before a request that changes something and before which no
// other one was paused, and the next one goes on. It returns those that are paused when one has finished the work, or
// when enough is true for the request that one is paused before. So it takes as long as the work takes once.
func (p *place) pauseEach(t *testing.T, spec launcher.Spec, do work, enough func(request string) bool) (all []*pausedBroker) {
	t.Helper()
	var mu sync.Mutex
	met := map[string]bool{}
	for {
		proceeds := make(chan struct{})
		b := &pausedBroker{proceed: sync.OnceFunc(func() { close(proceeds) }), paused: make(chan struct{}),
			sent: make(chan struct{}), ended: make(chan error, 1)}
		l := p.behind(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
			body, err := io.ReadAll(r.Body)
			if err != nil { // the launcher has given up the request
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			request := r.Method + " " + r.URL.RequestURI()
			if r.Method != http.MethodPost { // which has new keys
				request += varying.ReplaceAllString(string(body), "")
			}
			mu.Lock()
			here := b.before == "" && r.Method != http.MethodGet && !met[request]
			if here {
				met[request], b.before = true, r.Method+" "+r.URL.RequestURI()
				close(b.paused)
				defer close(b.sent)
			}
			isPaused := b.before != ""
			mu.Unlock()
			if isPaused {
				<-proceeds
				r = r.WithContext(context.WithoutCancel(r.Context())) // it was on its way
			}
			pass(w, r)
		}).open(t)
		t.Cleanup(b.proceed) // before the connections are closed
		go func() {
			_, sentences, err := finish(t, func(ctx context.Context) (launcher.Endpoint, error) {
				e, err := do(l, spec)(ctx)
				select {
				case <-b.paused: // its task has lost the lease, so it is not called again
					return e, context.Canceled
				default:
					return e, err
				}
			})
			select {
			case <-b.paused:
			default:
				t.Logf("done after %q", slices.Compact(sentences))
			}
			b.ended <- err
		}()
		select {
		case <-b.paused:
			all = append(all, b)
			if enough(b.before) {
				return all
			}
		case err := <-b.ended:
			if err != nil {
				t.Errorf("a broker that was not paused: %v", err)
			}
			return all
		}
	}
}

// continueEach lets the brokers continue, one after the other, and expects that none changes anything.
func (p *place) continueEach(t *testing.T, spec launcher.Spec, all []*pausedBroker) {
	t.Helper()
	want := p.pictureOf(t, spec)
	for _, b := range all {
		b.proceed()
		<-b.sent
		<-b.ended
		p.expectPicture(t, spec, want, b.before)
	}
	t.Logf("%d brokers were paused", len(all))
}

// never is for pauseEach.
func never(string) bool { return false }
