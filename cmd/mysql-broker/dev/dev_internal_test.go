package dev

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/broker/catalog"
	"mysql-broker/provisioner/launcher/process/files"
	"mysql-broker/provisioner/plan"
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
	require.NoError(t, writeEnvironment(dir, left))
	file := filepath.Join(dir, environmentFile)
	getenv, found, err := Environment(environment(map[string]string{"MYSQL_BROKER_DEV_DIR": dir, "CATALOG": "mine.yml"}))
	require.True(t, err == nil && found == file, "found %q, %v", found, err)
	assert.Equal(t, []string{awkward, "mine.yml"}, []string{getenv("DATABASE_URL"), getenv("CATALOG")})
	assert.Contains(t, getenv("MYSQL_SERVERS"), "mysql://u:p@h:1/")
	shell := exec.Command("sh", "-c", `. "$1"; printf %s "$DATABASE_URL"`, "sh", file)
	out, err := shell.CombinedOutput()
	assert.True(t, err == nil && string(out) == awkward, "a shell reads %q, %v", out, err)
	for _, own := range []string{"DATABASE_URL", "VCAP_SERVICES"} {
		given := map[string]string{"MYSQL_BROKER_DEV_DIR": dir, own: "set"}
		getenv, found, err := Environment(environment(given))
		assert.True(t, err == nil && found == "" && getenv("MYSQL_SERVERS") == "", "with %s: found %q, %v", own, found, err)
	}
	_, found, err = Environment(environment(map[string]string{"MYSQL_BROKER_DEV_DIR": t.TempDir()}))
	assert.True(t, err == nil && found == "", "where no broker ran: found %q, %v", found, err)
	require.NoError(t, os.Chmod(file, 0o640))
	_, _, err = Environment(environment(map[string]string{"MYSQL_BROKER_DEV_DIR": dir}))
	assert.True(t, err != nil && strings.Contains(err.Error(), "is not read"), "with a file that others may read: %v", err)
}

func TestParseEnvironment(t *testing.T) {
	t.Parallel()
	got := parseEnvironment("# export A='1'\nexport B='2'\nexport C=3\nD='4'\nexport F='it'\\''s'\n")
	assert.Equal(t, map[string]string{"B": "2", "F": "it's"}, got)
}

func TestSecretsAreKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secrets.json")
	first, err := loadSecrets(path)
	require.True(t, err == nil && first.Password != "" && first.Keyset != "" && first.AccountPassword != "" &&
		len(first.Username) <= 20, "the first start: %v", err)
	again, err := loadSecrets(path)
	assert.True(t, err == nil && again == first, "the second start has others, %v", err)
	require.NoError(t, os.WriteFile(path, []byte(`{"password": "do-not-quote`), 0o600))
	_, err = loadSecrets(path)
	assert.False(t, err == nil || strings.Contains(err.Error(), "do-not-quote"), "a damaged file: %v", err)
}

// The last part that was started stops first. One that fails keeps none from stopping.
func TestPartsStop(t *testing.T) {
	t.Parallel()
	var all parts
	var stopped []string
	failed := errors.New("failed")
	all.started(func(context.Context) error { stopped = append(stopped, "server"); return failed })
	all.started(func(ctx context.Context) error { stopped = append(stopped, "broker"); return ctx.Err() })
	var out bytes.Buffer
	assert.ErrorIs(t, all.stop(&out), failed)
	assert.Equal(t, []string{"broker", "server"}, stopped)
	assert.Contains(t, out.String(), "data stays")
	out.Reset()
	assert.NoError(t, (parts{}).stop(&out), "nothing was started")
	assert.Empty(t, out.String(), "nothing was started")
}

// The catalog of dev offers what the shipped one leaves to operators.
func TestTrialCatalog(t *testing.T) {
	t.Chdir("../../..")
	path, err := trialCatalog(t.TempDir())
	require.NoError(t, err)
	c, err := catalog.Load(path)
	require.NoError(t, err)
	for _, p := range c.Plans() {
		assert.False(t, p.KeepDeletedDays == 0 || p.Backups.EveryHours == 0 || p.ArchiveLogs != (p.Kind == plan.Dedicated),
			"plan %s: %d days, archive %t", p.Name, p.KeepDeletedDays, p.ArchiveLogs)
	}
}

// What servers do with files is tried first, and leaves nothing.
func TestTryFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	owner, err := files.LookupOwner()
	require.NoError(t, err)
	assert.NoError(t, tryFiles(dir, owner))
	left, err := os.ReadDir(dir)
	assert.True(t, err == nil && len(left) == 0, "left: %v, %v", left, err)
	assert.Error(t, tryFiles("/proc", owner), "servers could keep their files in /proc")
}
