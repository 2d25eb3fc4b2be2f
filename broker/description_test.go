package broker_test

import (
	"testing"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/broker"
	"mysql-broker/broker/catalog"
	"mysql-broker/test/inprocess"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Names that a tenant has given, and what a server says of them, may hold what a terminal obeys.
func TestDescriptionOfAnOperationIsVisible(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	offered, err := catalog.Load(env["CATALOG"])
	require.NoError(t, err)
	site := inprocess.New(t, s, env, offered.Plans())
	i := site.Provision(offered.Plans()[0])
	testdrive.OpenTasks(t, env).Exec(t, "UPDATE task SET description = $1", "The view \x1b[2J\u009b\u202e is invalid.")
	last, err := broker.New(offered, site.Broker, func(string) string { return "" }, false).
		LastOperation(t.Context(), i.ID, domain.PollDetails{})
	require.NoError(t, err)
	assert.Equal(t, `The view \u001b[2J\u009b\u202e is invalid.`, last.Description)
}
