package kubernetes_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
)

// noise cannot be compressed.
var noise = func() []byte {
	made := make([]byte, 2<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(made)
	return made
}()

// Long notes are compressed, and divided if necessary. Short ones are as brokers of the release before write and read
// them.
func TestNotes(t *testing.T) {
	t.Parallel()
	shared.Start(t)
	p := newPlace(t, kubernetes.Image{})
	l := p.open(t)
	long := append(noise[:300<<10:300<<10], make([]byte, 4<<20)...)
	writeNote(t, l, "short", []byte("{}"))
	for _, content := range [][]byte{long, noise, noise[:900<<10], long, noise, []byte("{}"), long, {'1'}} {
		writeNote(t, l, "long", content)
	}
	p.expectNotes(t, "note.long", "note.short")
	for _, name := range []string{"note.short", "note.long"} {
		var earlier struct{ Data map[string][]byte }
		p.Do(t, http.MethodGet, p.Path("secrets/"+name), nil, &earlier)
		if len(earlier.Data) != 1 || len(earlier.Data["content"]) == 0 {
			t.Errorf("the Secret %s has %v", name, earlier.Data)
		}
	}
}

// A broker is killed after each request that changes something, or paused before it while another one writes. The note
// is always the one before or the next one, and nothing else remains.
func TestNoteOfTroubledBroker(t *testing.T) {
	t.Parallel()
	shared.Start(t)
	p := newPlace(t, kubernetes.Image{})
	heir := p.open(t)
	former, next, other := noise[:900<<10], noise[1:900<<10], noise[2:900<<10]
	troubles := map[string]func(cancel func(), w http.ResponseWriter, r *http.Request, pass http.HandlerFunc){
		"killed after": func(cancel func(), _ http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
			pass(httptest.NewRecorder(), r)
			cancel()
			abort()
		},
		"paused before": func(_ func(), w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
			writeNote(t, heir, "mark", other)
			pass(w, r)
		},
	}
	for name, trouble := range troubles {
		for moment, met := 1, true; met; moment++ {
			writeNote(t, heir, "mark", former)
			ctx, cancel := context.WithCancel(t.Context())
			requests := 0
			l := p.behind(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
				if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/secrets") {
					if requests++; requests == moment {
						trouble(cancel, w, r, pass)
						return
					}
				}
				pass(w, r)
			}).open(t)
			err := l.WriteNote(ctx, "mark", next)
			cancel()
			l.Close()
			met = requests >= moment
			if met == (err == nil) {
				t.Errorf("%s request %d: %v", name, moment, err)
			}
			got, err := heir.ReadNote(t.Context(), "mark")
			paused := name == "paused before" && met
			if err != nil || bytes.Equal(got, other) != paused ||
				!paused && !bytes.Equal(got, former) && !bytes.Equal(got, next) {
				t.Errorf("%s request %d: the note has %d bytes, %v", name, moment, len(got), err)
			}
		}
		for range 2 {
			writeNote(t, heir, "mark", []byte("{}"))
		}
		p.expectNotes(t, "note.mark")
	}
}

func writeNote(t *testing.T, l launcher.Launcher, name string, content []byte) {
	t.Helper()
	if err := l.WriteNote(t.Context(), name, content); err != nil {
		t.Error(err)
	}
	if got, err := l.ReadNote(t.Context(), name); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the note %s has %d bytes of %d, %v", name, len(got), len(content), err)
	}
}

func (p *place) expectNotes(t *testing.T, want ...string) {
	t.Helper()
	var there struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	p.Do(t, http.MethodGet, p.Path("secrets?labelSelector=app.kubernetes.io/managed-by=mysql-broker"), nil, &there)
	var names []string
	for _, item := range there.Items {
		names = append(names, item.Metadata.Name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("there are the Secrets %q, want %q", names, want)
	}
}
