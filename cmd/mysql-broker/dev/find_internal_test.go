package dev

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/broker/catalog"
	"mysql-broker/provisioner/plan"
)

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
	assert.NoError(t, tryFiles(dir))
	left, err := os.ReadDir(dir)
	assert.True(t, err == nil && len(left) == 0, "left: %v, %v", left, err)
	assert.Error(t, tryFiles("/proc"), "servers could keep their files in /proc")
}
