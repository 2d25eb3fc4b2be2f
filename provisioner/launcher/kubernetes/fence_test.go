package kubernetes_test

import (
	"context"
	"encoding/json"
	"net/http"
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
		type order func(launcher.Launcher, launcher.Spec) call
		changing := func(change func(*launcher.Spec)) order {
			return func(l launcher.Launcher, spec launcher.Spec) call {
				change(&spec)
				return resizing(l, spec)
			}
		}
		for _, test := range []struct {
			name   string
			before order // nil: there is no server
			call   order
			after  []order
		}{
			{"resize", launching, changing(func(s *launcher.Spec) { s.MemoryMB, s.StorageMB = 1024, 2048 }), []order{resizing}},
			{"resize with a restart", launching, changing(func(s *launcher.Spec) { s.BinaryLogs = true }), []order{resizing}},
			{"suspend", launching, suspending, []order{suspending, launching}},
			{"launch what is suspended", suspending, launching, []order{launching, suspending}},
			{"launch", nil, launching, []order{launching, suspending}},
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
func (p *place) pauseAt(t *testing.T, moment int, spec launcher.Spec, order func(launcher.Launcher, launcher.Spec) call,
	meanwhile func()) string {
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
		e, err := order(l, spec)(ctx)
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
	assert.Equal(t, want, p.pictureOf(t, spec), "a broker that was paused before %s", last)
	return last
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
