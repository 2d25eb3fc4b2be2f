package kubernetes_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		assert.NoError(t, err, "a broker that was not paused")
		return ""
	}
	<-resumed // the request may have been given up before
	p.expectPicture(t, spec, want, last)
	return last
}

// expectPicture expects the objects of a server to be as they were before a broker continued that was paused.
func (p *place) expectPicture(t *testing.T, spec launcher.Spec, want, paused string) {
	t.Helper()
	was, is := strings.Split(want, "\n"), strings.Split(p.pictureOf(t, spec), "\n")
	assert.Equal(t, len(is), len(was),
		"paused before %s, it changed the objects: %d lines became %d", paused, len(was), len(is))
	for i := range min(len(was), len(is)) {
		if was[i] != is[i] {
			t.Errorf("paused before %s, it changed %.300s into %.300s", paused, was[i], is[i])
			return
		}
	}
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

// pictureOf is what launchers make the objects of a server to be.
func (p *place) pictureOf(t *testing.T, spec launcher.Spec) string {
	t.Helper()
	type containers []struct {
		Name, Image string
		Resources   any
	}
	type object struct {
		Metadata struct {
			Name, UID, DeletionTimestamp string
			Annotations                  map[string]string
		}
		Data map[string]string
		Spec struct {
			Replicas            int
			Selector, Resources any
			Containers          containers
			Template            struct {
				Metadata struct{ Annotations map[string]string }
				Spec     struct{ Containers containers }
			}
		}
	}
	picture, runs := map[string][]object{}, false
	for _, path := range []string{p.Path("secrets"), p.Path("persistentvolumeclaims"), p.Path("services"),
		"/apis/apps/v1/namespaces/" + p.Name + "/statefulsets", p.Path("pods")} {
		var all struct{ Items []object }
		p.Do(t, http.MethodGet, path+"?labelSelector=mysql-broker/server="+spec.ID, nil, &all)
		if strings.HasSuffix(path, "/pods") && !runs { // one may be about to end that was ordered and then not
			continue
		}
		for n, o := range all.Items {
			runs = runs || o.Spec.Replicas > 0
			if !strings.HasSuffix(path, "/secrets") { // the cluster annotates others
				all.Items[n].Metadata.Annotations = nil
			}
			for key := range o.Data {
				if strings.HasSuffix(key, ".pem") {
					delete(o.Data, key)
				}
			}
		}
		picture[path] = all.Items
	}
	text, err := json.MarshalIndent(picture, "", " ")
	require.NoError(t, err)
	return string(text)
}
