package dev

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

const awkward = "it's $HOME; `id` & \"more\"\\"

// Commands and shells read the same.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	left := map[string]string{"DATABASE_URL": awkward, "CATALOG": "catalog.yml", "MYSQL_SERVERS": "mysql://u:p@h:1/"}
	if err := writeEnvironment(dir, left); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, environmentFile)
	getenv, found, err := Environment(environment(map[string]string{"MYSQL_BROKER_DEV_DIR": dir, "CATALOG": "mine.yml"}))
	if err != nil || found != file {
		t.Fatalf("found %q, %v", found, err)
	}
	if getenv("DATABASE_URL") != awkward || getenv("CATALOG") != "mine.yml" || !strings.Contains(getenv("MYSQL_SERVERS"), "mysql://u:p@h:1/") {
		t.Errorf("read %q, %q, %q", getenv("DATABASE_URL"), getenv("CATALOG"), getenv("MYSQL_SERVERS"))
	}
	shell := exec.Command("sh", "-c", `. "$1"; printf %s "$DATABASE_URL"`, "sh", file)
	if out, err := shell.CombinedOutput(); err != nil || string(out) != awkward {
		t.Errorf("a shell reads %q, %v", out, err)
	}
	for _, own := range []string{"DATABASE_URL", "VCAP_SERVICES"} {
		given := map[string]string{"MYSQL_BROKER_DEV_DIR": dir, own: "set"}
		if getenv, found, err := Environment(environment(given)); err != nil || found != "" || getenv("MYSQL_SERVERS") != "" {
			t.Errorf("with %s: found %q, %v", own, found, err)
		}
	}
	if _, found, err := Environment(environment(map[string]string{"MYSQL_BROKER_DEV_DIR": t.TempDir()})); err != nil || found != "" {
		t.Errorf("where no broker ran: found %q, %v", found, err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Environment(environment(map[string]string{"MYSQL_BROKER_DEV_DIR": dir})); err == nil || !strings.Contains(err.Error(), "is not read") {
		t.Errorf("with a file that others may read: %v", err)
	}
}

func TestParseEnvironment(t *testing.T) {
	t.Parallel()
	got := parseEnvironment("# export A='1'\nexport B='2'\nexport C=3\nD='4'\nexport F='it'\\''s'\n")
	if want := map[string]string{"B": "2", "F": "it's"}; !maps.Equal(got, want) {
		t.Errorf("read %q", got)
	}
}

func TestSecretsAreKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secrets.json")
	first, err := loadSecrets(path)
	if err != nil || first.Password == "" || first.Keyset == "" || first.AccountPassword == "" || len(first.Username) > 20 {
		t.Fatalf("the first start: %v", err)
	}
	if again, err := loadSecrets(path); err != nil || again != first {
		t.Errorf("the second start has others, %v", err)
	}
	if err := os.WriteFile(path, []byte(`{"password": "do-not-quote`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadSecrets(path); err == nil || strings.Contains(err.Error(), "do-not-quote") {
		t.Errorf("a damaged file: %v", err)
	}
}

func TestReachable(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "open")
	closed := filepath.Join(dir, "closed")
	inside := filepath.Join(closed, "inside")
	if err := os.MkdirAll(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(closed, 0o700), os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{dir: reachable(os.TempDir()), closed: false, inside: false, filepath.Join(dir, "none"): false} {
		if reachable(path) != want {
			t.Errorf("%s: %t", path, !want)
		}
	}
}

// The last part that was started stops first. One that fails keeps none from stopping.
func TestPartsStop(t *testing.T) {
	t.Parallel()
	var all parts
	var stopped []string
	failed := errors.New("failed")
	for name, err := range map[string]error{"server": failed} {
		all.started(func(context.Context) error { stopped = append(stopped, name); return err })
	}
	all.started(func(ctx context.Context) error { stopped = append(stopped, "broker"); return ctx.Err() })
	var out bytes.Buffer
	if err := all.stop(&out); !errors.Is(err, failed) || strings.Join(stopped, " ") != "broker server" || !strings.Contains(out.String(), "data stays") {
		t.Errorf("%v, stopped %q, printed %q", err, stopped, out.String())
	}
	out.Reset()
	if err := (parts{}).stop(&out); err != nil || out.Len() > 0 {
		t.Errorf("nothing was started: %v, %q", err, out.String())
	}
}
