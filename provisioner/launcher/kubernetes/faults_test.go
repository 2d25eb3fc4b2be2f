package kubernetes_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/launchertest"
	"mysql-broker/test/testdrive"
)

// meet passes a request on to the API server, or does something else.
type meet func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc)

// behind returns the place of a broker whose requests are met.
func (p *place) behind(t *testing.T, do meet) *place {
	target, err := url.Parse(p.cfg.Credentials.URL)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.cfg.Credentials.CA)
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	forward.ErrorLog = log.New(io.Discard, "", 0) // of connections that a test cuts off
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		do(w, r, forward.ServeHTTP)
	}))
	t.Cleanup(server.Close)
	behind := *p
	behind.cfg.Credentials.URL = server.URL
	behind.cfg.Credentials.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &behind
}

// abort closes the connection without a response.
func abort() { panic(http.ErrAbortHandler) }

// oneImage is eachImage for what does not depend on the flavour: it takes the one that starts soonest.
func oneImage(t *testing.T, fn func(t *testing.T, image kubernetes.Image)) {
	t.Parallel()
	shared.Start(t)
	all := cluster.Binaries()
	require.NotEmpty(t, all, "no mysqld is installed")
	b := all[0]
	for _, other := range all {
		if other.Flavour == "mariadb" {
			b = other
		}
	}
	fn(t, kubernetes.Image{Flavour: b.Flavour, Version: b.Version, Name: cluster.ImageName(b)})
}

// holdsNothing fails the test if an object of a server is there.
func (p *place) holdsNothing(t *testing.T) {
	for _, path := range []string{p.Path("secrets"), p.Path("persistentvolumeclaims"), p.Path("services"),
		p.Path("pods"), "/apis/apps/v1/namespaces/" + p.Name + "/statefulsets"} {
		testdrive.Eventually(t, "the objects of "+path+" to be gone", func() bool {
			return len(p.list(t, path+"?labelSelector=mysql-broker/server")) == 0
		})
	}
}

// The API server is busy, refuses with a conflict, loses connections before and after it has carried a request out, and
// is down for a while. A launch, a resize and a removal succeed nevertheless.
func TestFaults(t *testing.T) {
	oneImage(t, func(t *testing.T, image kubernetes.Image) {
		p := newPlace(t, image)
		var requests, out atomic.Int64
		behind := p.behind(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
			n := requests.Add(1)
			if out.Load() > 0 { // the API server is down
				out.Add(-1)
				abort()
			}
			switch {
			case n%11 == 1:
				w.Header().Set("Retry-After", "1")
				refuse(w, http.StatusTooManyRequests, "TooManyRequests", "please try again later")
				return
			case n%11 == 3:
				refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable", "etcd is not there")
				return
			case n%11 == 5:
				abort()
			case n%11 == 7 && r.Method == http.MethodPatch:
				refuse(w, http.StatusConflict, "Conflict", "the object has been modified")
				return
			case n%11 == 9:
				pass(httptest.NewRecorder(), r)
				abort()
			case n%41 == 40:
				out.Store(12)
				abort()
			}
			pass(w, r)
		})
		l, spec := behind.open(t), newSpec()
		var e launcher.Endpoint
		again := func(what string, do call) {
			t.Helper()
			for tries := 1; ; tries++ {
				end, _, err := finish(t, do)
				failed, known := errors.AsType[*launcher.Error](err)
				switch {
				case err == nil:
					e = end
					return
				case known && failed.Action == launcher.GiveUp, tries == 20:
					t.Fatalf("%s: %v", what, err)
				}
				time.Sleep(50 * time.Millisecond) // as a task does, which waits longer
			}
		}
		again("launch", launching(l, spec))
		guest := launchertest.Visit(t, spec, e)
		spec.MemoryMB, spec.StorageMB = 1024, 2048
		again("resize", resizing(l, spec))
		assert.NoError(t, guest.PingContext(t.Context()), "a session has ended")
		again("destroy", func(ctx context.Context) (launcher.Endpoint, error) { return e, l.Destroy(ctx, spec.ID) })
		p.holdsNothing(t)
	})
}

// A broker is paused before each request that changes something, and another one finishes and undoes its work. What the
// first one does then changes nothing.
func TestPausedBroker(t *testing.T) {
	oneImage(t, func(t *testing.T, image kubernetes.Image) {
		for _, test := range []struct {
			name   string
			before order // nil: there is no server
			call   order
			after  []order
		}{
			{"resize", launching, changing(func(s *launcher.Spec) { s.MemoryMB, s.StorageMB = 1024, 2048 }), []order{resizing}},
			{"resize with a restart", launching, restarting, []order{resizing}},
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
func (p *place) pauseAt(t *testing.T, moment int, spec launcher.Spec, order order, meanwhile func()) string {
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
