package operators

import (
	"encoding/json"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Although lines are written in the background, none is missing after the broker has stopped.
func TestLogIsWholeAtTheEnd(t *testing.T) {
	t.Parallel()
	p := testdrive.StartPlatform(t, servers.Any(t), testdrive.Environment(t, servers.Any(t)))
	const clients, each = 8, 50
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range each {
				if _, err := p.Send("GET", "/v2/catalog", nil, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	p.Signal(t, syscall.SIGTERM)
	if status := p.Wait(t); status != 0 {
		t.Errorf("exit status %d", status)
	}
	requests, last := 0, ""
	for text := range strings.Lines(p.Log()) {
		var line struct{ Msg, Route string }
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("line %q: %v", text, err)
		}
		if last = line.Msg; line.Route == "/v2/catalog" {
			requests++
		}
	}
	if requests != clients*each || last != "stopped" {
		t.Errorf("%d requests were logged of %d; the last line is %q", requests, clients*each, last)
	}
}

// A broker that ends with an error has written what it logged before, and then the error.
func TestLogIsWholeAfterAnError(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	env := testdrive.Environment(t, servers.Any(t))
	_, env["PORT"], err = net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b := testdrive.Launch(t, env, "serve")
	if status := b.Wait(t); status != 1 {
		t.Errorf("exit status %d", status)
	}
	starting := strings.Index(b.Log(), `"msg":"starting"`)
	failed := strings.Index(b.Log(), "cannot listen on :"+env["PORT"]+"; set ADDRESS or PORT to another one")
	if starting < 0 || failed < starting {
		t.Errorf("the log is\n%s", b.Log())
	}
}
