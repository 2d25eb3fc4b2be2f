package process

import (
	"os"
	"strings"
	"testing"
)

// A member of Galera logs more about its group than about its end. One that was asked to stop was not killed.
func TestWasShutDown(t *testing.T) {
	t.Parallel()
	const (
		ready = "2026-11-26  1:00:00 0 [Note] mariadbd: ready for connections.\n"
		order = "2026-11-26  1:00:01 0 [Note] mariadbd (initiated by: unknown): Normal shutdown\n"
		last  = "2026-11-26  1:00:04 0 [Note] mariadbd: Shutdown complete\n"
	)
	view := strings.Repeat("2026-11-26  1:00:02 0 [Note] WSREP: STATE EXCHANGE: sent state msg\n", 200)
	for log, want := range map[string]bool{
		ready + order + view + last:                true,
		ready + order + view + last + ready + view: false,
		ready + order + view:                       false,
		ready:                                      false,
		"":                                         true,
	} {
		sd := serverDir{dir: t.TempDir()}
		if err := os.WriteFile(sd.logFile(), []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := wasShutDown(sd); got != want {
			t.Errorf("%.200q: shut down: %v", log, got)
		}
	}
	if !wasShutDown(serverDir{dir: t.TempDir()}) {
		t.Error("a server that has never run was killed")
	}
}
