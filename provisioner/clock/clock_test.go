package clock_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/clock"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/shared"
	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// Clocks may be an hour apart. A server that does not answer is not asked for the time.
func TestCompare(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	s := servers.Any(t)
	open := func(password string) *shared.Servers {
		all, err := shared.Open([]shared.Config{{Admin: mysqladmin.Config{Name: "one", Addr: s.Address(), User: s.User,
			Password: password, CA: []byte(s.CA)}}}, []byte("a key"))
		require.NoError(t, err)
		t.Cleanup(func() { all.Close() })
		return all
	}
	for ahead, wrong := range map[string]bool{"0": false, "59 min": false, "-59 min": false, "61 min": true, "-61 min": true} {
		postgres := servers.OpenStore(t, servers.PostgresAhead(t, url, ahead))
		for name, all := range map[string]*shared.Servers{"none": {}, "one": open(s.Password), "a silent one": open("wrong")} {
			err := clock.Compare(t.Context(), postgres, all)
			found, ok := errors.AsType[*clock.Error](err)
			assert.False(t, ok != wrong || err != nil && !ok || wrong && found.Ahead > 0 != (ahead[0] != '-'),
				"PostgreSQL is ahead by %s, %s server: %v", ahead, name, err)
		}
	}
}
