package operators

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/testdrive"
)

// Dedicated servers share one CA. It is replaced while they run. That its key is in no file is TestNothingLeaks'.
func TestOneCAForDedicatedServers(t *testing.T) {
	p, env := testdrive.OnePlatform(t)
	ca := func(args ...string) string {
		return testdrive.Run(t, env, append([]string{"ca"}, args...)...).Expect(t, 0).Stdout
	}
	i, other := p.Provisioned(t, "dedicated-small", nil), p.Provisioned(t, "dedicated-small", nil)
	b, c := i.Bound(t, nil)
	_, d := other.Bound(t, nil)
	first := ca()
	require.True(t, c.CACertificate == first && d.CACertificate == first && strings.Count(first, "BEGIN CERTIFICATE") == 1,
		"two servers have not the one CA that is printed")
	db := c.Open(t)
	db.SetMaxOpenConns(1)
	testdrive.Exec(t, db, "SET @kept = 7")

	ca("add")
	both := ca()
	fetched := func() string { return i.Credentials(t, b.Fetch(t).Expect(t, 200)).CACertificate }
	testdrive.Eventually(t, "both CAs are given out", func() bool { return fetched() == both })
	assert.True(t, strings.HasSuffix(both, first) && strings.Count(both, "BEGIN CERTIFICATE") == 2, "printed %q", both)
	out := testdrive.Run(t, env, "ca", "add").Expect(t, 1)
	assert.Contains(t, out.Stderr, "new CA already", "a second ca add")
	assert.Equal(t, "Dropped: 0.\n", ca("drop-old"), "ca drop-old before the new one signs")
	ca("promote")
	testdrive.Eventually(t, "no server has a certificate of the old CA", func() bool {
		return testdrive.Run(t, env, "ca", "drop-old").Status == 0
	})
	second := ca()
	assert.Equal(t, strings.TrimSuffix(both, first), second, "the old CA is still")
	testdrive.Eventually(t, "the new CA alone is given out", func() bool { return fetched() == second })
	renewed := i.Credentials(t, b.Fetch(t).Expect(t, 200))
	renewed.Open(t) // verified against that
	assert.Equal(t, 7, testdrive.Read[int](t, db, "SELECT @kept"), "a session ended")
	i.Bound(t, nil)
	p.Provisioned(t, "dedicated-small", nil)
}
