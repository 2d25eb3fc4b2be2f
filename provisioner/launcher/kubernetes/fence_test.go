package kubernetes_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
)

// A broker is paused before each request that changes something, and another one finishes and undoes its work. What the
// first one does then changes nothing.
func TestPausedBroker(t *testing.T) {
	oneImage(t, func(t *testing.T, image kubernetes.Image) {
		type call func(l launcher.Launcher, spec launcher.Spec) func(ctx context.Context) (launcher.Endpoint, error)
		resizing := func(change func(*launcher.Spec)) call {
			return func(l launcher.Launcher, spec launcher.Spec) func(ctx context.Context) (launcher.Endpoint, error) {
				change(&spec)
				return func(ctx context.Context) (launcher.Endpoint, error) { return l.Resize(ctx, spec, func(string) {}) }
			}
		}
		back := resizing(func(*launcher.Spec) {})
		for _, test := range []struct {
			name   string
			before call // nil: there is no server
			call   call
			after  []call
		}{
			{"resize", launching, resizing(func(s *launcher.Spec) { s.MemoryMB, s.StorageMB = 1024, 2048 }), []call{back}},
			{"resize with a restart", launching, resizing(func(s *launcher.Spec) { s.BinaryLogs = true }), []call{back}},
			{"suspend", launching, suspending, []call{suspending, launching}},
			{"launch what is suspended", suspending, launching, []call{launching, suspending}},
			{"launch", nil, launching, []call{launching, suspending}},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t, image)
				heir, spec := p.open(t), newSpec()
				if test.before != nil {
					do(t, launching(heir, spec))
				}
				for moment := 1; ; moment++ {
					if test.before != nil {
						do(t, test.before(heir, spec))
					} else {
						spec = newSpec()
					}
					last := p.pauseAt(t, moment, spec, test.call, func() {
						for _, step := range test.after {
							do(t, step(heir, spec))
						}
					})
					if last == "" {
						break
					}
				}
			})
		}
	})
}

// pauseAt has a broker call something, and pauses it before a request that changes something: the one with that number,
// of those that differ from the one before. It returns that request, or "" if there is none.
func (p *place) pauseAt(t *testing.T, moment int, spec launcher.Spec,
	call func(launcher.Launcher, launcher.Spec) func(context.Context) (launcher.Endpoint, error), meanwhile func()) string {
	t.Helper()
	var last, want string
	paused, resumed := make(chan struct{}), make(chan struct{})
	l := p.behind(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
		if request := r.Method + " " + r.URL.RequestURI(); r.Method != http.MethodGet && moment > 0 && request != last {
			last = request
			if moment--; moment == 0 {
				close(paused)
				defer close(resumed)
				meanwhile()
				want = p.pictureOf(t, spec)
			}
		}
		pass(w, r)
	}).open(t)
	_, _, err := finish(t, func(ctx context.Context) (launcher.Endpoint, error) {
		e, err := call(l, spec)(ctx)
		select {
		case <-paused: // its task has lost the lease, so it is not called again
			return e, context.Canceled
		default:
			return e, err
		}
	})
	select {
	case <-paused:
	default:
		if err != nil {
			t.Errorf("a broker that was not paused: %v", err)
		}
		return ""
	}
	<-resumed // the request may have been given up before
	was, is := strings.Split(want, "\n"), strings.Split(p.pictureOf(t, spec), "\n")
	for i := range min(len(was), len(is)) {
		if was[i] != is[i] {
			t.Errorf("paused before %s, it changed %.300s into %.300s", last, was[i], is[i])
		}
	}
	return last
}

func do(t *testing.T, call func(ctx context.Context) (launcher.Endpoint, error)) {
	t.Helper()
	if _, sentences, err := finish(t, call); err != nil {
		t.Errorf("%v, after %q", err, slices.Compact(sentences))
	}
}

func suspending(l launcher.Launcher, spec launcher.Spec) func(ctx context.Context) (launcher.Endpoint, error) {
	return func(ctx context.Context) (launcher.Endpoint, error) {
		return launcher.Endpoint{}, l.Suspend(ctx, spec.ID)
	}
}

// pictureOf is what a launcher makes a server to be.
func (p *place) pictureOf(t *testing.T, spec launcher.Spec) string {
	t.Helper()
	type container struct {
		Name      string
		Resources any
	}
	var all struct {
		Secret struct {
			Metadata struct {
				UID         string
				Annotations map[string]string
			}
			Data map[string]string
		}
		Claim struct{ Spec struct{ Resources any } }
		Set   struct {
			Spec struct {
				Replicas int
				Template struct {
					Spec struct{ Containers []container }
				}
			}
		}
		Pod struct {
			Metadata struct{ UID, DeletionTimestamp string }
			Spec     struct{ Containers []container }
		}
	}
	name := objectName(spec)
	p.Do(t, http.MethodGet, p.Path("secrets/"+name), nil, &all.Secret)
	p.Do(t, http.MethodGet, p.Path("persistentvolumeclaims/"+name), nil, &all.Claim)
	p.Do(t, http.MethodGet, "/apis/apps/v1/namespaces/"+p.Name+"/statefulsets/"+name, nil, &all.Set)
	if all.Set.Spec.Replicas > 0 {
		p.Do(t, http.MethodGet, p.Path("pods/"+podName(spec)), nil, &all.Pod)
	}
	for key := range all.Secret.Data {
		if strings.HasSuffix(key, ".pem") {
			delete(all.Secret.Data, key)
		}
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
