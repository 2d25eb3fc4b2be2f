package process_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process"
	"mysql-broker/test/launchertest"
	"mysql-broker/test/logged"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// binaries are the servers that tests run on: those installed, and those that $MYSQLD names.
var binaries = sync.OnceValue(func() []mysqld.Binary {
	return mysqld.FindBinaries(filepath.SplitList(os.Getenv("MYSQLD"))...)
})

// eachBinary runs fn as a parallel subtest for every server there is.
func eachBinary(t *testing.T, fn func(t *testing.T, binary mysqld.Binary)) {
	t.Parallel()
	servers.Needed(t)
	require.NotEmpty(t, binaries(), "no mysqld is installed")
	for _, b := range servers.Chosen(t, binaries()) {
		t.Run(b.Flavour+"-"+b.Version, func(t *testing.T) {
			t.Parallel()
			fn(t, b)
		})
	}
}

func TestMain(m *testing.M) { servers.Main(m) }

// newConfig has a state directory and twenty ports of its own. All servers in it are gone when the test ends.
func newConfig(t *testing.T, binary mysqld.Binary) process.Config {
	low, high := testdrive.PortRange(t)
	cfg := process.Config{Dir: testdrive.LauncherDirWithTemplates(t, binary.Flavour), Binary: binary, PortMin: low, PortMax: high}
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	t.Cleanup(func() {
		l, err := process.Open(cfg) // which starts none of those that do not run
		require.NoError(t, err)
		ids, err := l.List(context.Background())
		assert.NoError(t, err)
		for _, id := range ids {
			assert.NoError(t, l.Destroy(context.Background(), id))
		}
	})
	return cfg
}

// open opens a launcher, which is closed when the test ends, if not before.
func open(t *testing.T, cfg process.Config) *process.Launcher {
	cfg.Supervise = true
	l, err := process.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return l
}

func ignore(string) {}

func newSpec(id string) launcher.Spec {
	return launcher.Spec{ID: id, MemoryMB: 256, StorageMB: 1024, AdminUser: "admin", AdminPassword: rand.Text()}
}

func launch(t *testing.T, l *process.Launcher, spec launcher.Spec) launcher.Endpoint {
	end, err := l.Launch(t.Context(), spec, ignore)
	require.NoError(t, err, "launch")
	return end
}

// server is one that runs, in a place of its own.
type server struct {
	cfg  process.Config
	l    *process.Launcher
	spec launcher.Spec
	end  launcher.Endpoint
	db   *sql.DB      // its administrator's connections
	dir  string       // below which its files are
	log  *logged.Text // warnings of launchers
}

// eachServer is eachBinary with a server.
func eachServer(t *testing.T, id string, fn func(t *testing.T, s server)) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		s := server{cfg: newConfig(t, binary), spec: newSpec(id)}
		s.log = warnings(&s.cfg)
		s.l = open(t, s.cfg)
		s.end = launch(t, s.l, s.spec)
		s.db = connect(t, s.spec, s.end)
		s.dir = filepath.Join(s.cfg.Dir, "instances", id)
		fn(t, s)
	})
}

func (s server) pid(t *testing.T) int { return pidOf(t, s.cfg, s.spec.ID) }

func connect(t *testing.T, spec launcher.Spec, end launcher.Endpoint) *sql.DB {
	return launchertest.Connect(t, spec, end)
}

// connectPlain is connect without TLS.
func connectPlain(t *testing.T, spec launcher.Spec, end launcher.Endpoint) *sql.DB {
	end.CACertificate = nil
	return launchertest.Connect(t, spec, end)
}

// pidOf reads the file that the server itself wrote.
func pidOf(t *testing.T, cfg process.Config, id string) int {
	text, err := os.ReadFile(filepath.Join(cfg.Dir, "instances", id, "data", "mysqld.pid"))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	return pid
}

// The launcher keeps what launcher.Launcher promises.
func TestConformance(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		launchertest.Run(t, func(t *testing.T) launchertest.Place { return newPlace(t, binary) })
	})
}

func newPlace(t *testing.T, binary mysqld.Binary) launchertest.Place {
	cfg := newConfig(t, binary)
	log := &logged.Text{}
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	return launchertest.Place{
		MemoryMB: [2]int{256, 1024},
		Open:     func(t *testing.T) launcher.Launcher { return open(t, cfg) },
		Supervise: func(t *testing.T, options launcher.Options) launcher.Launcher {
			supervised := cfg
			supervised.Options = options
			supervised.Logger = cfg.Logger
			return open(t, supervised)
		},
		Fill: func(t *testing.T) {
			for port := cfg.PortMin; port <= cfg.PortMax; port++ {
				if ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil { // it is free
					t.Cleanup(func() { _ = ln.Close() })
				}
			}
		},
		Readable: func(t *testing.T) string { return log.String() + serverLogs(t, cfg) + arguments(t, cfg) },
	}
}

// serverLogs reads what servers logged.
func serverLogs(t *testing.T, cfg process.Config) string {
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
