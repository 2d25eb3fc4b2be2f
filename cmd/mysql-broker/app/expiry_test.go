package app

import (
	"net/http"
	"testing"

	"mysql-broker/test/limits"
	"mysql-broker/test/logged"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Bindings that expire while no broker runs end when one starts.
func TestExpiredMeanwhile(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	var log logged.Text
	stop, p := start(t, s, env, &log)
	i := p.MakeOwn(t, "shared-small")
	missed, gone := i.Bound(t, nil)
	stop()
	testdrive.OpenTasks(t, env).Exec(t, "UPDATE binding SET expires_at = now() WHERE id = $1", missed.BindingID)
	_, p = start(t, s, env, &log)
	testdrive.Eventually(t, limits.Stuck, "the binding has ended", func() bool {
		return log.Count("a service binding has expired") == 1 && !testdrive.AccountExists(t, p, gone.Username)
	})
	missed.Instance = i.Via(p)
	testdrive.ExpectEmpty(t, missed.Unbind(t), http.StatusOK)
	testdrive.ExpectEmpty(t, missed.Instance.Deprovision(t, testdrive.Sync), http.StatusOK)
}
