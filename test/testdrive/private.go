package testdrive

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/launchers"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/admit"
	"mysql-broker/test/servers"
)

// Private starts a server that no other test uses, for tests that stall it. It is removed when the test ends. If it is
// killed, it is not restarted: see StartCrashable.
func Private(t testing.TB, flavour string) servers.MySQL { return PrivateWith(t, flavour) }

// PrivateWith is Private with further lines of the server's option file, as NAME=VALUE.
func PrivateWith(t testing.TB, flavour string, settings ...string) servers.MySQL {
	return privateBy(t, privateConfig(t, launcherDirWithTemplates(t, flavour), flavour), flavour, false, settings...)
}

// PrivateDedicated starts a server as the launcher starts an instance's: it has no settings of shared servers, and the
// broker is its administrator.
func PrivateDedicated(t testing.TB, flavour string) servers.MySQL {
	admit.Enter(t, serverUnits(flavour))
	l, err := launchers.OpenHere(privateConfig(t, launcherDirWithTemplates(t, flavour), flavour), launcher.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { killAll(t, l) })
	e, err := l.Launch(t.Context(), privateSpec, func(string) {})
	require.NoError(t, err, "start a dedicated server")
	return servers.MySQL{Flavour: flavour, Host: e.Host, Port: e.Port, User: privateUser, Password: privatePassword,
		BrokerUser: privateUser, BrokerPassword: privatePassword, CA: string(e.CACertificate)}
}

// PrivateLater is Private of a later version: see servers.Later.
func PrivateLater(t testing.TB, flavour string) servers.MySQL {
	config := privateConfig(t, launcherDir(t), flavour)
	config["LAUNCHER_MYSQLD"] = servers.Later(t, binaryOf(t, flavour)).Path
	return privateBy(t, config, flavour, false)
}

const privateID = "private"

// privateBy starts the server with a launcher that supervises it, or with one that does not and keeps no goroutine and
// no open file.
func privateBy(t testing.TB, config map[string]string, flavour string, supervise bool, settings ...string) servers.MySQL {
	admit.Enter(t, serverUnits(flavour))
	l, e, err := launchPrivate(t.Context(), config, flavour, supervise, settings...)
	if l != nil {
		t.Cleanup(func() { killAll(t, l) })
	}
	require.NoError(t, err, "start a private server")
	return private(t, flavour, e)
}

func serverUnits(flavour string) int {
	if flavour == mysqld.MySQL {
		return admit.MySQL
	}
	return admit.MariaDB
}

// privateConfig is the configuration of a private server's launcher.
func privateConfig(t testing.TB, dir, flavour string) map[string]string {
	low, high := PortRange(t)
	return map[string]string{"LAUNCHER_DIR": dir, "LAUNCHER_MYSQLD": binaryOf(t, flavour).Path,
		"LAUNCHER_PORTS": fmt.Sprintf("%d-%d", low, high)}
}

const privateUser, privatePassword = "root_of_test", "a-private-password"

var privateSpec = launcher.Spec{ID: privateID, MemoryMB: 256, StorageMB: 256, AdminUser: privateUser,
	AdminPassword: privatePassword}

func launchPrivate(ctx context.Context, config map[string]string, flavour string, supervise bool,
	settings ...string) (launcher.Stopper, launcher.Endpoint, error) {
	common, err := servers.Settings(flavour)
	if err != nil {
		return nil, launcher.Endpoint{}, err
	}
	l, err := launchers.OpenHere(config,
		launcher.Options{Supervise: supervise, UnlimitedMemory: true, Settings: append(common, settings...)})
	if err != nil {
		return nil, launcher.Endpoint{}, err
	}
	e, err := l.Launch(ctx, privateSpec, func(string) {})
	return l, e, err
}

// private describes a private server, with an account for a broker.
func private(t testing.TB, flavour string, e launcher.Endpoint) servers.MySQL {
	server, err := servers.WithBrokerAccount(t.Context(), servers.MySQL{Flavour: flavour, Host: "127.0.0.1", Port: e.Port,
		User: privateUser, Password: privatePassword, CA: string(e.CACertificate)})
	require.NoError(t, err)
	return server
}

// Crashable is a private server that can be killed. Like a dedicated server, it is restarted.
type Crashable struct {
	servers.MySQL
	dir string
}

// StartCrashable starts a Crashable. It is removed when the test ends.
func StartCrashable(t testing.TB, flavour string) Crashable {
	dir := launcherDirWithTemplates(t, flavour)
	return Crashable{MySQL: privateBy(t, privateConfig(t, dir, flavour), flavour, true), dir: dir}
}

// Crash kills the server, and prevents its restart until let is called.
func (c Crashable) Crash(t testing.TB) (let func()) { return CrashDedicated(t, c.dir, privateID) }

// CrashDedicated kills the server of that id in a launcher's directory, and prevents its restart until let is called,
// by holding the lock that every start and stop needs.
func CrashDedicated(t testing.TB, launcherDir, id string) (let func()) {
	dir := filepath.Join(launcherDir, "instances", id)
	unlock := LockDir(t, dir)
	SignalMysqlds(t, dir, syscall.SIGKILL)
	Eventually(t, "the killed server ends", func() bool { return len(Mysqlds(t, dir)) == 0 })
	return unlock
}

// LockDir takes the lock of a directory as the launcher does, until the test ends or unlock is called.
func LockDir(t testing.TB, path string) (unlock func()) {
	dir, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { dir.Close() })
	Eventually(t, "nobody else locks "+path, func() bool {
		return syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
	})
	return func() { dir.Close() }
}
