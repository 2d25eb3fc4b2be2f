package provisioner_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/instances"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
	"mysql-broker/test/inprocess"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// The SQL of bootstrap may drop what the broker has put into the database, and the database itself. It may not have the
// broker take large rows into its memory.
func TestBootstrapThatDrops(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, bootstrapThatDrops)
}

func bootstrapThatDrops(t *testing.T, server servers.MySQL) {
	env := testdrive.Environment(t, server)
	plans := shipped(t, env)
	_, id := testdrive.Plan(t, "shared-small")
	for n := range plans {
		plans[n].KeepDeletedDays, plans[n].Async = 7, plan.AsyncPreferred
	}
	small := plans.Get(id)
	site := inprocess.New(t, server, env, plans)
	ended := func(id string) store.Task { return (&scene{Site: *site, instance: store.Instance{ID: id}}).ended() }
	create := func(sql string) (id string, made store.Task) {
		id = uuid.NewString()
		_, err := site.Broker.Provision(t.Context(), engine.ProvisionRequest{InstanceID: id, Plan: small, AcceptsIncomplete: true,
			Parameters: plan.InstanceParameters{Bootstrap: sql}})
		site.Must(err)
		return id, ended(id)
	}
	prepared := func(what string) string { return "SET @s = CONCAT('" + what + "'); PREPARE s FROM @s; EXECUTE s;" }

	failing := prepared("DROP TABLE `unfinished ', DATABASE(), '`") + "CREATE TABLE t (id INT);"
	if server.Flavour == mysqld.MySQL {
		failing += "ALTER DATABASE READ ONLY = 1;"
	}
	_, failed := create(failing + "SELECT * FROM missing")
	assert.Equal(t, store.Failed, failed.State)
	assert.Contains(t, failed.Description, "(SELECT) failed", "what the user reads")

	_, talking := create("CREATE TABLE t (a LONGBLOB); INSERT INTO t VALUES (REPEAT('x', 3 << 20)); SELECT a FROM t; " +
		"SELECT a, a FROM t")
	assert.Contains(t, talking.Description, "Statement 4 of the parameter bootstrap (SELECT) returns more than 4 MiB")

	id, made := create(prepared("DROP DATABASE `', DATABASE(), '`"))
	require.Equal(t, store.Succeeded, made.State, made.Description)
	_, err := site.Broker.Deprovision(t.Context(), instances.DeprovisionRequest{InstanceID: id, Plan: small,
		AcceptsIncomplete: true})
	site.Must(err)
	assert.Equal(t, store.Succeeded, ended(id).State)
	kept, err := site.Store.Retained.All(t.Context())
	require.True(t, err == nil && len(kept) == 1, "kept %+v, %v", kept, err)
	r, err := site.Store.Resources.Get(t.Context(), store.DatabaseResource, kept[0].Location.Server, kept[0].Database)
	assert.True(t, err == nil && r.SeenGone, "the doctor looks for %+v, %v", r, err)
}
