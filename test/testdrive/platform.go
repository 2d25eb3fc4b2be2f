package testdrive

import (
	"io"
	"net/http"
	"testing"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
)

// Platform is what a scenario works with: a broker, and the shared server behind it. Scenarios run at the same time
// on one broker and must use instance ids of their own.
type Platform struct {
	*Broker
	Server      servers.MySQL
	launcherDir string // of its dedicated servers
	Seen        *Secrets
}

// StartPlatform starts a broker. Once that has stopped, neither its log nor its responses may hold any of its secrets.
func StartPlatform(t *testing.T, server servers.MySQL, env map[string]string) Platform {
	t.Helper()
	return StartPlatformBy(t, Start, server, env)
}

func StartPlatformBy(t *testing.T, start func(testing.TB, map[string]string) *Broker, server servers.MySQL,
	env map[string]string) Platform {
	t.Helper()
	seen := &Secrets{}
	seen.Add(env["BROKER_PASSWORD"], env["ENCRYPTION_KEYSET"], server.Password, server.BrokerPassword)
	p := Platform{Server: server, launcherDir: env["LAUNCHER_DIR"], Seen: seen}
	t.Cleanup(func() { // before start, so that it runs once the broker has stopped
		if p.Broker == nil { // it did not start
			return
		}
		seen.Check(t, "the log", p.Log())
		seen.checkAnswers(t)
	})
	p.Broker = start(t, env)
	p.Username, p.Password, p.OnAnswer = env["BROKER_USERNAME"], env["BROKER_PASSWORD"], seen.heard
	return p
}

// Get reads any path without a password.
func (p Platform) Get(t *testing.T, path string) string {
	t.Helper()
	r, err := http.Get(p.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func ExpectStopped(t *testing.T, p Platform, since limits.Interval) {
	t.Helper()
	if status := p.Wait(t); status != 0 {
		t.Errorf("exit status %d", status)
	}
	since.Done(t, "the broker stops", stopTime)
}
