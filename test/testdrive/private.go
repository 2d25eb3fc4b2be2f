package testdrive

import (
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
	return privateShared(t, privateConfig(t, LauncherDirWithTemplates(t, flavour), flavour), flavour, false, settings...)
}

// PrivateDedicated starts a server as the launcher starts an instance's: it has no settings of shared servers, and the
// broker is its administrator.
func PrivateDedicated(t testing.TB, flavour string) servers.MySQL {
	s := launchPrivate(t, privateConfig(t, LauncherDirWithTemplates(t, flavour), flavour), flavour, launcher.Options{})
	s.BrokerUser, s.BrokerPassword = s.User, s.Password
	return s
}

// PrivateLater is Private of a later version: see servers.Later.
func PrivateLater(t testing.TB, flavour string) servers.MySQL {
	config := privateConfig(t, LauncherDir(t), flavour)
	config["LAUNCHER_MYSQLD"] = servers.Later(t, binaryOf(t, flavour)).Path
	return privateShared(t, config, flavour, false)
}

// privateShared starts a server with an account for a broker. Its launcher supervises it, or does not and keeps no
// goroutine and no open file.
func privateShared(t testing.TB, config map[string]string, flavour string, supervise bool, settings ...string) servers.MySQL {
	common, err := servers.Settings(flavour)
	require.NoError(t, err)
	s := launchPrivate(t, config, flavour,
		launcher.Options{Supervise: supervise, UnlimitedMemory: true, Settings: append(common, settings...)})
	s, err = servers.WithBrokerAccount(t.Context(), s)
	require.NoError(t, err)
	return s
}

const privateID = "private"

// launchPrivate starts a server until the test ends.
func launchPrivate(t testing.TB, config map[string]string, flavour string, options launcher.Options) servers.MySQL {
	admit.Enter(t, serverUnits(flavour))
	l, err := launchers.OpenHere(config, options)
	require.NoError(t, err)
	t.Cleanup(func() { killAll(t, l) })
	s := servers.MySQL{Flavour: flavour, User: "root_of_test", Password: "a-private-password"}
	e, err := l.Launch(t.Context(), launcher.Spec{ID: privateID, MemoryMB: 256, StorageMB: 256, AdminUser: s.User,
		AdminPassword: s.Password}, func(string) {})
	require.NoError(t, err, "start a private server")
	s.Host, s.Port, s.CA = e.Host, e.Port, string(e.CACertificate)
	return s
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

// Crashable is a private server that can be killed. Like a dedicated server, it is restarted.
type Crashable struct {
	servers.MySQL
	dir string
}

// StartCrashable starts a Crashable. It is removed when the test ends.
func StartCrashable(t testing.TB, flavour string) Crashable {
	dir := LauncherDirWithTemplates(t, flavour)
	return Crashable{MySQL: privateShared(t, privateConfig(t, dir, flavour), flavour, true), dir: dir}
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
