package mysqladmin_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/test/testdrive"
)

func TestUnreachable(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()
	for what, addr := range map[string]string{"no listener": fmt.Sprintf("127.0.0.1:%d", testdrive.FreePort(t)),
		"no answer": silent.Addr().String()} {
		server, err := mysqladmin.Open(mysqladmin.Config{Name: "s1", Addr: addr, User: "u", Password: "secret-word"})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err = server.Ping(ctx)
		cancel()
		if !mysqladmin.Unreachable(err) || !strings.Contains(err.Error(), "s1") ||
			strings.Contains(err.Error(), "secret-word") {
			t.Errorf("%s: %v", what, err)
		}
		assert.NoError(t, server.Close())
	}
}

func TestRefusalsAreNotOutages(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		assert.False(t, mysqladmin.Unreachable(nil) || mysqladmin.Unreachable(context.Canceled),
			"nil or a cancelled context counts as unreachable")
		err := f.checkLogin("nobody", "wrong")
		assert.False(t, err == nil || mysqladmin.Unreachable(err), "a refused login: %v", err)
		err = f.session.Databases.Create(t.Context(), f.database, "utf8mb4", "latin1_bin")
		assert.False(t, err == nil || mysqladmin.Unreachable(err), "a refused statement: %v", err)
	})
}
