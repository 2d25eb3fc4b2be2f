package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/testdrive"
)

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
