package testdrive

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mysql-broker/test/admit"
)

// DevEnvironment is the environment of a person who tries the broker: a state directory, a mysqld of that flavour, a
// catalog. The kernel chooses PORT, so that tests do not collide.
func DevEnvironment(t testing.TB, flavour string) map[string]string {
	t.Helper()
	admit.Enter(t, admit.Postgres+admit.Broker+serverUnits(flavour))
	return map[string]string{
		"MYSQL_BROKER_DEV_DIR":      launcherDir(t),
		"MYSQL_BROKER_CLIENT_STATE": filepath.Join(t.TempDir(), "client.json"),
		"MYSQLD":                    binaryOf(t, flavour).Path + ":" + os.Getenv("MYSQLD"), // the first counts
		"CATALOG":                   filepath.Join(Root(), "catalog.yml"),
		"PORT":                      "0",
		"PATH":                      os.Getenv("PATH"),
	}
}

// StartDev runs `dev` until the test ends, and returns when it says that it is ready.
func StartDev(t testing.TB, env map[string]string) *Broker {
	t.Helper()
	b := Launch(t, env, "dev")
	line := b.AwaitLog(t, "The broker is ready at ")
	b.AwaitLog(t, "Ctrl-C stops everything")
	_, rest, _ := strings.Cut(line, " at ")
	b.URL, _, _ = strings.Cut(rest, ",")
	raw, err := os.ReadFile(filepath.Join(env["MYSQL_BROKER_DEV_DIR"], "client.json"))
	if err != nil {
		t.Fatalf("what the client needs was not left for it: %v", err)
	}
	var address struct{ URL, Username, Password string }
	if err := json.Unmarshal(raw, &address); err != nil {
		t.Fatalf("client.json: %v", err)
	}
	if address.URL != b.URL {
		t.Errorf("client.json has the URL %s, but %s was printed", address.URL, b.URL)
	}
	b.Username, b.Password = address.Username, address.Password
	return b
}
