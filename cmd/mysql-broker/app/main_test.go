package app

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/broker/catalog"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// start starts a broker in this process. stop, which may be called early, stops it.
func start(t *testing.T, s servers.MySQL, env map[string]string, log io.Writer) (stop func(), p testdrive.Platform) {
	t.Helper()
	cfg, err := config.FromEnvironment(func(name string) string { return env[name] })
	require.NoError(t, err)
	c, err := catalog.Load(cfg.CatalogPath)
	require.NoError(t, err)
	a, err := Start(t.Context(), cfg, c, slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(t, err)
	stop = sync.OnceFunc(a.Close)
	t.Cleanup(stop)
	return stop, testdrive.Platform{Server: s, Seen: &testdrive.Secrets{}, Broker: &testdrive.Broker{
		URL: fmt.Sprintf("http://127.0.0.1:%d", a.Port()), Username: testdrive.Username, Password: testdrive.Password}}
}
