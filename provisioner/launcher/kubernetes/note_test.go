package kubernetes_test

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"mysql-broker/provisioner/launcher/kubernetes"
)

// Long notes are compressed. Short ones are as brokers of the release before write and read them.
func TestNotes(t *testing.T) {
	t.Parallel()
	shared.Start(t)
	p := newPlace(t, kubernetes.Image{})
	l := p.open(t)
	var noise [300 << 10]byte // which cannot be compressed
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise[:])
	for name, content := range map[string][]byte{"short": []byte("{}"), "long": append(noise[:], make([]byte, 4<<20)...)} {
		if err := l.WriteNote(t.Context(), name, content); err != nil {
			t.Fatal(err)
		}
		if got, err := l.ReadNote(t.Context(), name); err != nil || !bytes.Equal(got, content) {
			t.Errorf("the %s note has %d bytes of %d, %v", name, len(got), len(content), err)
		}
	}
	var earlier struct{ Data map[string][]byte }
	p.Do(t, http.MethodGet, p.Path("secrets/note.short"), nil, &earlier)
	if string(earlier.Data["content"]) != "{}" {
		t.Errorf("the short note is %v", earlier.Data)
	}
	if err := l.WriteNote(t.Context(), "long", []byte(strings.Repeat("x", 10))); err != nil {
		t.Fatal(err)
	}
	if got, err := l.ReadNote(t.Context(), "long"); err != nil || len(got) != 10 {
		t.Errorf("the note that was long has %d bytes, %v", len(got), err)
	}
}
