package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/store"
	"mysql-broker/test/testdrive"
)

func TestCatalogCheck(t *testing.T) {
	t.Parallel()
	shipped := testdrive.Root() + "/catalog.yml"
	good := testdrive.Run(t, nil, "catalog", "check", shipped).Expect(t, 0)
	assert.Equal(t, shipped+" is good: 5 plans.\n", good.Stdout, "a good catalog")
	bad := brokenCatalog(t)
	out := testdrive.Run(t, nil, "catalog", "check", bad)
	assert.True(t, out.Status != 0 && strings.HasPrefix(out.Stderr, bad+":2: ") && strings.Contains(out.Stderr, bad+":3: "),
		"a bad catalog: status %d, %q", out.Status, out.Stderr)
}

func TestKeyset(t *testing.T) {
	t.Parallel()
	first := testdrive.Run(t, nil, "keyset").Expect(t, 0).Stdout
	second := testdrive.Run(t, nil, "keyset").Expect(t, 0).Stdout
	assert.NotEqual(t, second, first, "two keysets are the same")
	_, err := store.ParseKeyset(strings.TrimSpace(first))
	assert.NoError(t, err, "the keyset cannot be used")
}

func TestServeHelp(t *testing.T) {
	t.Parallel()
	out := testdrive.Run(t, nil, "serve", "--help").Expect(t, 0)
	unwrapped := strings.Join(strings.Fields(out.Stdout), " ")
	for _, v := range config.Variables {
		assert.Len(t, containing(out.Stdout, "  "+v.Name+" "), 1, "help about %s", v.Name)
		assert.Contains(t, unwrapped, v.Name+" "+v.Meaning)
		assert.Contains(t, unwrapped, v.Default)
	}
	for _, name := range []string{"VCAP_SERVICES", "VCAP_APPLICATION"} {
		assert.True(t, strings.Contains(out.Stdout, name), "help does not mention %s", name)
	}
}

// The help of every command says what it does, how to call it and, if it can fail, what its exit status means.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"serve", "dev", "migrate", "doctor", "catalog check", "keyset", "keyset add",
		"keyset promote", "keyset drop-old", "rotate-keys", "rotate-admin-passwords", "client", "client create-service",
		"client services", "instances", "bindings", "tasks", "tasks retry", "tasks cancel", "servers", "drain", "move", "recover"} {
		help := testdrive.Run(t, nil, append(strings.Fields(command), "--help")...).Expect(t, 0).Stdout
		assert.True(t, strings.HasPrefix(help, "mysql-broker "+command+" - "), "help of %s begins %.60q", command, help)
		for _, section := range []string{"\nUsage:\n  mysql-broker " + command, "\nExit status:\n  0    "} {
			assert.Contains(t, help, section, "help of %s lacks %q:", command, section)
		}
		for line := range strings.Lines(help) {
			assert.False(t, strings.TrimSpace(line) == "<no value>" || utf8.RuneCountInString(line) > 121,
				"help of %s: %q", command, line)
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
			assert.True(t, strings.Contains(help, "\n  "+v.Name+" "),
				"%s complains of %s, which its help lacks", command, v.Name)
		}
		assert.True(t, found >= least, "%s complains of %d variables only: %s", command, found, complaint)
	}
}

func TestUnknownCommand(t *testing.T) {
	t.Parallel()
	for typed, meant := range map[string]string{"sevre": "serve", "client servics": "services", "tasks rety task_1": "retry",
		"catalog chek": "check", "keyset promot": "promote", "completion bsh": "bash"} {
		out := testdrive.Run(t, nil, strings.Fields(typed)...)
		assert.True(t, out.Status != 0 && strings.Contains(out.Stderr, "\t"+meant+"\n"),
			"%s: status %d, %q", typed, out.Status, out.Stderr)
	}
}

// Whoever follows the documents can type every command that they name.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, pattern := range []string{"README.md", "docs/*.md", "deploy/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(testdrive.Root(), pattern))
		require.NoError(t, err)
		pages = append(pages, found...)
	}
	named, root := 0, commands(os.Getenv)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, match := range documented.FindAllStringSubmatch(string(text), -1) {
			named++
			command, rest, err := root.Find(strings.Fields(match[1]))
			if err == nil {
				err = command.ParseFlags(rest)
			}
			if args := command.Flags().Args(); err == nil && len(args) > 0 {
				err = command.ValidateArgs(args)
			}
			assert.NoError(t, err, "%s: %s", page, match[0])
		}
	}
	assert.Greater(t, named, 80, "commands were found")
}

// documented matches a command in a line of a shell or in backquotes, up to a pipe or a comment.
var documented = regexp.MustCompile("(?m)(?:`|^ *(?:\\$ )?)mysql-broker ([a-z][^`\n|#]*)")

func TestDevRefusesPort(t *testing.T) {
	t.Parallel()
	for _, port := range []string{"99999", "-1", "http"} {
		dir := filepath.Join(t.TempDir(), "state")
		out := testdrive.Run(t, map[string]string{"PORT": port, "MYSQL_BROKER_DEV_DIR": dir}, "dev").Expect(t, 78)
		_, err := os.Stat(dir)
		assert.True(t, strings.Contains(out.Stderr, "PORT") && errors.Is(err, fs.ErrNotExist),
			"PORT=%s: %q, the state directory: %v", port, out.Stderr, err)
	}
}

// Nobody reads what a library says of a mistake.
func TestUsage(t *testing.T) {
	t.Parallel()
	for args, says := range map[string]string{
		"serve foo":                 "use it as: mysql-broker serve [flags]\n",
		"catalog check":             "use it as: mysql-broker catalog check FILE",
		"backups verify":            "use it as: mysql-broker backups verify BACKUP…",
		"rotate-bindings":           "use it as: mysql-broker rotate-bindings (--instance INSTANCE | --space GUID | --server NAME)",
		"instances --limit -1":      `--limit must be a whole number, 0 or more, not "-1"`,
		"instances --limit ten":     `--limit must be a whole number, 0 or more, not "ten"`,
		"instances --json=perhaps":  `--json must be true or false, not "perhaps"`,
		"backups restore b i":       "nobody is there to confirm it: add --yes",
		"tasks --state half-done":   "--state must be one of ",
		"audit --since last-summer": "--since must be an age such as 90m or 3d",
		"audit --action foo":        "--action must be one of ",
	} {
		out := testdrive.Run(t, nil, strings.Fields(args)...).Expect(t, 1)
		assert.True(t, strings.HasPrefix(out.Stderr, says), "%s: %q", args, out.Stderr)
	}
}
