package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/store"
	"mysql-broker/test/testdrive"
)

func TestCatalogCheck(t *testing.T) {
	t.Parallel()
	shipped := testdrive.Root() + "/catalog.yml"
	good := testdrive.Run(t, nil, "catalog", "check", shipped).Expect(t, 0)
	if good.Stdout != shipped+" is good: 5 plans.\n" {
		t.Errorf("a good catalog: %q", good.Stdout)
	}
	text, err := os.ReadFile(shipped)
	if err != nil {
		t.Fatal(err)
	}
	first, second := lineOf(string(text), "name: shared-small"), lineOf(string(text), "name: shared-large")
	bad := filepath.Join(t.TempDir(), "catalog.yml")
	if err := os.WriteFile(bad, []byte(strings.Replace(string(text), "name: shared-large", "name: shared-small", 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	out := testdrive.Run(t, nil, "catalog", "check", bad)
	if out.Status == 0 || !strings.HasPrefix(out.Stderr, fmt.Sprintf("%s:%d: ", bad, second)) ||
		!strings.Contains(out.Stderr, fmt.Sprintf("line %d", first)) {
		t.Errorf("a catalog with two plans of one name: status %d, %q", out.Status, out.Stderr)
	}
	if out := testdrive.Run(t, nil, "catalog", "check", "/no/such/file"); out.Status == 0 ||
		!strings.Contains(out.Stderr, "/no/such/file") {
		t.Errorf("no catalog: status %d, %q", out.Status, out.Stderr)
	}
}

// lineOf counts from 1.
func lineOf(text, part string) int {
	return 1 + strings.Count(text[:strings.Index(text, part)], "\n")
}

func TestKeyset(t *testing.T) {
	t.Parallel()
	first := testdrive.Run(t, nil, "keyset").Expect(t, 0).Stdout
	second := testdrive.Run(t, nil, "keyset").Expect(t, 0).Stdout
	if first == second {
		t.Error("two keysets are the same")
	}
	if _, err := store.ParseKeyset(strings.TrimSpace(first)); err != nil {
		t.Errorf("the keyset cannot be used: %v", err)
	}
}

func TestServeHelp(t *testing.T) {
	t.Parallel()
	out := testdrive.Run(t, nil, "serve", "--help").Expect(t, 0)
	unwrapped := strings.Join(strings.Fields(out.Stdout), " ")
	for _, v := range config.Variables {
		if lines := containing(out.Stdout, "  "+v.Name+" "); len(lines) != 1 || !strings.Contains(unwrapped, v.Name+" "+v.Meaning) ||
			!strings.Contains(unwrapped, v.Default) {
			t.Errorf("help about %s: %q", v.Name, lines)
		}
	}
	for _, name := range []string{"VCAP_SERVICES", "VCAP_APPLICATION"} {
		if !strings.Contains(out.Stdout, name) {
			t.Errorf("help does not mention %s", name)
		}
	}
}

// The help of every command says what it does, how to call it and, if it can fail, what its exit status means.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"serve", "dev", "migrate", "doctor", "catalog check", "keyset", "keyset add",
		"keyset promote", "keyset drop-old", "rotate-keys", "rotate-admin-passwords", "client", "client create-service",
		"client services", "instances", "bindings", "tasks", "tasks retry", "tasks cancel", "servers", "drain", "move", "recover"} {
		help := testdrive.Run(t, nil, append(strings.Fields(command), "--help")...).Expect(t, 0).Stdout
		if !strings.HasPrefix(help, "mysql-broker "+command+" - ") {
			t.Errorf("help of %s begins %.60q", command, help)
		}
		for _, section := range []string{"\nUsage:\n  mysql-broker " + command, "\nExit status:\n  0    "} {
			if !strings.Contains(help, section) {
				t.Errorf("help of %s lacks %q:\n%s", command, section, help)
			}
		}
		for line := range strings.Lines(help) {
			if strings.TrimSpace(line) == "<no value>" || utf8.RuneCountInString(line) > 101 {
				t.Errorf("help of %s: %q", command, line)
			}
		}
	}
}

// A command's help lists every variable that its errors can name.
func TestHelpNamesTheVariables(t *testing.T) {
	t.Parallel()
	env := map[string]string{"LAUNCHER": "process"}
	for _, v := range config.Variables {
		if v.Name != "LAUNCHER" {
			env[v.Name] = "wrong \x01"
		}
	}
	for command, least := range map[string]int{"serve": 15, "doctor": 8, "rotate-keys": 2, "rotate-admin-passwords": 6,
		"migrate": 1, "instances": 3, "tasks retry task_1": 3, "drain a": 3, "recover": 8} {
		args := strings.Fields(command)
		complaint := testdrive.Run(t, env, args...).Expect(t, 78).Stderr
		help := testdrive.Run(t, nil, append(args, "--help")...).Expect(t, 0).Stdout
		found := 0
		for _, v := range config.Variables {
			if !regexp.MustCompile(`\b` + v.Name + `\b`).MatchString(complaint) {
				continue
			}
			found++
			if !strings.Contains(help, "\n  "+v.Name+" ") {
				t.Errorf("%s complains of %s, which its help lacks", command, v.Name)
			}
		}
		if found < least {
			t.Errorf("%s complains of %d variables only: %s", command, found, complaint)
		}
	}
}

func TestUnknownCommand(t *testing.T) {
	t.Parallel()
	for typed, meant := range map[string]string{"sevre": "serve", "client servics": "services", "tasks rety task_1": "retry",
		"catalog chek": "check", "keyset promot": "promote", "completion bsh": "bash"} {
		if out := testdrive.Run(t, nil, strings.Fields(typed)...); out.Status == 0 || !strings.Contains(out.Stderr, "\t"+meant+"\n") {
			t.Errorf("%s: status %d, %q", typed, out.Status, out.Stderr)
		}
	}
}

func TestDevRefusesPort(t *testing.T) {
	t.Parallel()
	for _, port := range []string{"99999", "-1", "http"} {
		dir := filepath.Join(t.TempDir(), "state")
		out := testdrive.Run(t, map[string]string{"PORT": port, "MYSQL_BROKER_DEV_DIR": dir}, "dev").Expect(t, 78)
		if _, err := os.Stat(dir); !strings.Contains(out.Stderr, "PORT") || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("PORT=%s: %q, the state directory: %v", port, out.Stderr, err)
		}
	}
}
