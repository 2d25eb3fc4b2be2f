//go:build faults

package stage

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner"
	"mysql-broker/provisioner/task"
	"mysql-broker/test/platform"
	"mysql-broker/test/testdrive"
)

// cancelUpgrade has an operator cancel an upgrade when the data was copied. The instance keeps its plan, its version and
// its data, and a later update succeeds.
func (s *scene) cancelUpgrade(t *testing.T) {
	x, err := s.Prepare(t.Context(), platform.Workflow{Kind: platform.Update, Plan: platform.NamedPlan(t, "dedicated-small"),
		To: platform.NamedPlan(t, "dedicated-large")}, s.host)
	require.NoError(t, err)
	upgrading := s.now
	upgrading.obey(func(point string) testdrive.Word {
		if point == "upgrade: copied" {
			upgrading.obey(nil)
			var id int64
			err := s.Tasks.QueryRow(t.Context(), "SELECT id FROM task WHERE state = 'in progress'").Scan(&id)
			assert.NoError(t, err)
			_, err = task.Cancel(t.Context(), s.records, id, provisioner.TaskKinds())
			assert.NoError(t, err)
			upgrading.expireLeases() // the broker would learn at its next heartbeat that it has lost this one
		}
		return testdrive.GoOn
	})
	got, err := s.Run(x.Request())
	assert.True(t, err == nil && got.Failed, "the update: %s, %v", got.Raw, err)
	assert.Equal(t, "Cancelled by an operator. The service instance stays as it was; update it again later.",
		got.String("description"))
	s.expectVersion(t, x, s.servers.versions[0].Version)
	s.Check(t, "after the update was cancelled")

	q := x.Request()
	got, err = s.Run(q)
	assert.NoError(t, s.learn(&x, q, got, err), "the later update")
	s.expectVersion(t, x, s.Later)
	s.Check(t, "after the later update")
	s.clear(t, &x)
	s.ForgetGone()
	s.stopAfterFailure(t, s.now)
}

// expectVersion expects that the server of an instance has a version, also by the records.
func (s *scene) expectVersion(t *testing.T, x platform.Target, want string) {
	i, err := s.records.Instances.Get(t.Context(), x.Instance.ID)
	require.NoError(t, err)
	s.servers.mu.Lock()
	defer s.servers.mu.Unlock()
	server := s.servers.servers[i.Location.Server]
	assert.Equal(t, []any{want, want, ready}, []any{i.ServerVersion, server.version, server.phase}, "versions, and the phase")
}
