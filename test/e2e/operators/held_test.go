package operators

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// If a shared server is unreachable when the broker starts, the hold is detected before the broker changes anything on
// it.
func TestHeldByServerThatComesLater(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	proxy := testdrive.NewProxy(t, s.Address())
	direct := s
	s.Port = proxy.Port()
	env := testdrive.Environment(t, s)
	delete(env, "LAUNCHER") // whose directory would tell at once
	p := testdrive.StartPlatform(t, s, env)
	i := p.MakeOwn(t, "shared-async")
	_, c := i.Bound(t, nil)
	last := testdrive.OpenTasks(t, env).Last(t) - 1
	testdrive.StopBroker(t, p)
	testdrive.OpenTasks(t, env).Forget(t, last)
	proxy.Refuse(true)

	p = testdrive.StartPlatform(t, s, env)
	p.AwaitLog(t, "nothing is done there until that works")
	testdrive.ExpectFigures(t, p, map[string]string{"mysql_broker_held": "0"})
	i.Via(p).Deprovision(t, testdrive.Async).Expect(t, http.StatusAccepted)
	proxy.Refuse(false)
	testdrive.Eventually(t, limits.Stuck, "PostgreSQL is held", func() bool { return p.Scrape(t)["mysql_broker_held"] == "1" })
	testdrive.ExpectHeld(t, p, "has a record of task_")
	c.Open(t)
	_, state := testdrive.OpenTasks(t, env).Latest(t, i.ID, "")
	assert.Equal(t, "in progress", state, "the deletion")
	p.Server = direct
	testdrive.Exec(t, p.Admin(t), "DROP DATABASE `"+c.Database+"`", "DROP USER "+c.Username)
}
