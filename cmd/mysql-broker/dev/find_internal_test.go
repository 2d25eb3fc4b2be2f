package dev

import (
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
