package process_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/launchertest"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process"
	"mysql-broker/test/logged"
	"mysql-broker/test/testdrive"
)

// The launcher keeps what launcher.Launcher promises.
func TestConformance(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		launchertest.Run(t, func(t *testing.T) launchertest.Place {
			cfg := newConfig(t, binary)
			log := &logged.Text{}
			cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
			child, err := json.Marshal(childConfig{cfg.Dir, cfg.Binary, cfg.PortMin, cfg.PortMax})
			require.NoError(t, err)
			return launchertest.Place{
				Child:    string(child),
				MemoryMB: [2]int{256, 1024},
				Open:     func(t *testing.T) launcher.Launcher { return open(t, cfg) },
				Supervise: func(t *testing.T, options launcher.Options) launcher.Launcher {
					supervised := cfg
					supervised.Options = options
					supervised.Logger = cfg.Logger
					return open(t, supervised)
				},
				Fill:     func(t *testing.T) { takePorts(t, cfg) },
				Readable: func(t *testing.T) string { return log.String() + serverLogs(t, cfg) + arguments(t, cfg) },
			}
		})
	})
}

// childConfig is what another process needs to know of a test's launcher.
type childConfig struct {
	Dir              string
	Binary           mysqld.Binary
	PortMin, PortMax int
}

// openChild opens the launcher of another process's test.
func openChild(place string) (launcher.Launcher, error) {
	var c childConfig
	if err := json.Unmarshal([]byte(place), &c); err != nil {
		return nil, err
	}
	return process.Config{Dir: c.Dir, Binary: c.Binary, PortMin: c.PortMin, PortMax: c.PortMax}.Open(launcher.Options{})
}

// takePorts listens on all ports that no server has.
func takePorts(t *testing.T, cfg process.Config) {
	t.Helper()
	for port := cfg.PortMin; port <= cfg.PortMax; port++ {
		if ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			t.Cleanup(func() { _ = ln.Close() })
		}
	}
}

// serverLogs reads what servers logged.
func serverLogs(t *testing.T, cfg process.Config) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(cfg.Dir, "instances", "*", "*.log"))
	require.True(t, err == nil && len(files) != 0, "no server has a log: %v", err)
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}

// arguments reads the arguments and the environment of the servers' processes.
func arguments(t *testing.T, cfg process.Config) string {
	t.Helper()
	all := fmt.Sprint(testdrive.Processes(t, cfg.Dir))
	instances, err := os.ReadDir(filepath.Join(cfg.Dir, "instances"))
	require.NoError(t, err)
	for _, i := range instances {
		environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pidOf(t, cfg, i.Name())))
		require.NoError(t, err)
		all += string(environment)
	}
	return all
}
