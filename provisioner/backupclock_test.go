package provisioner_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
	"mysql-broker/test/inprocess"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// The hosts of brokers may have several times. A backup has that of PostgreSQL, in its manifest too: from there, it is
// imported.
func TestBackupsHaveTheTimeOfPostgreSQL(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	env := testdrive.Environment(t, server)
	env["BACKUP_STORE"] = "file://" + t.TempDir()
	env["DATABASE_URL"] = servers.PostgresAhead(t, env["DATABASE_URL"], "-2 hours")
	plans := shipped(t, env)
	site := inprocess.New(t, server, env, plans)
	_, id := testdrive.Plan(t, "shared-small")
	small := plans.Get(id)
	i := site.Provision(small)
	_, err := site.Broker.Update(t.Context(), engine.UpdateRequest{InstanceID: i.ID, ServiceID: small.ServiceID,
		Plan: small, AcceptsIncomplete: true, Parameters: plan.UpdateParameters{Backup: plan.BackupNow}})
	require.NoError(t, err)
	s := &scene{Site: *site, instance: i}
	s.ended()
	b, err := site.Store.Backups.Find(t.Context(), i.ID)
	require.NoError(t, err)
	assert.InDelta(t, 2*time.Hour, time.Since(*b.TakenAt), float64(time.Hour), "taken so long ago by this host's clock")
	assert.Equal(t, store.BackupComplete, b.State)
}
