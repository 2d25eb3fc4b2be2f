package app

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/cmd/mysql-broker/config"
)

// The log has the URL of the profiles.
func TestProfiles(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	a := &App{cfg: config.Config{Pprof: "127.0.0.1:0"}, log: slog.New(slog.NewTextHandler(&logged, nil))}
	end, err := a.startProfiles(t.Context())
	require.NoError(t, err)
	defer end.stop()
	_, url, _ := strings.Cut(strings.TrimSpace(logged.String()), "url=")
	for page, want := range map[string]string{"": "goroutine", "goroutine?debug=1": "goroutine profile: total ",
		"heap?debug=1": "heap profile: ", "profile?seconds=1": ""} {
		r, err := http.Get(url + page)
		require.NoError(t, err)
		content, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK || !strings.Contains(string(content), want) {
			t.Errorf("%s: status %d, %d bytes, %v", page, r.StatusCode, len(content), err)
		}
	}
}
