package dev

import (
	"os"
	"testing"

	"mysql-broker/broker/catalog"
	"mysql-broker/provisioner/plan"
)

// The catalog of dev offers what the shipped one leaves to operators.
func TestTrialCatalog(t *testing.T) {
	t.Chdir("../../..")
	path, err := trialCatalog(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Plans() {
		if p.KeepDeletedDays == 0 || p.Backups.EveryHours == 0 || p.ArchiveLogs != (p.Kind == plan.Dedicated) {
			t.Errorf("plan %s: %d days, archive %t", p.Name, p.KeepDeletedDays, p.ArchiveLogs)
		}
	}
}

// What servers do with files is tried first, and leaves nothing.
func TestTryFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := tryFiles(dir); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := tryFiles("/proc"); err == nil {
		t.Error("servers could keep their files in /proc")
	}
}
