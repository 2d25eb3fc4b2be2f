package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/store"
)

// The page of an instance whose server does not respond says why, if its launcher knows.
func TestSilence(t *testing.T) {
	t.Parallel()
	d := &Dashboard{Config: Config{AnswerTime: time.Minute, Logger: slog.New(slog.DiscardHandler),
		Trouble: func(_ context.Context, at store.Location) (launcher.Trouble, error) {
			if at.Server == "" {
				return "", errors.New("the launcher does not respond either")
			}
			return launcher.Trouble(at.Server), nil
		}}}
	for server, want := range map[string]string{string(launcher.NoNode): troubles[launcher.NoNode], "": noAnswer, "another": noAnswer} {
		i := store.Instance{Location: store.DedicatedLocation("kubernetes", server)}
		got := d.silence(t.Context(), i)
		assert.True(t, got == want && got != "", "of %q, the page says %q", server, got)
	}
}
