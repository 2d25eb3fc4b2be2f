package testdrive

import (
	"fmt"
	"testing"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/launchers"
	"mysql-broker/test/servers"
)

// Private starts a server that no other test uses, for tests that stall it. It is removed when the test ends. If it is
// killed, it is not restarted: see StartCrashable.
func Private(t testing.TB, flavour string) servers.MySQL {
	t.Helper()
	return PrivateWith(t, flavour)
}

// PrivateWith is Private with further lines of the server's option file, as NAME=VALUE.
func PrivateWith(t testing.TB, flavour string, settings ...string) servers.MySQL {
	t.Helper()
	return privateIn(t, launcherDirWithTemplates(t, flavour), flavour, false, settings...)
}

const privateID = "private"

// privateIn starts the server with a launcher that supervises it, or with one that does not and keeps no goroutine and
// no open file.
func privateIn(t testing.TB, dir, flavour string, supervise bool, settings ...string) servers.MySQL {
	t.Helper()
	common, err := servers.Settings(flavour)
	if err != nil {
		t.Fatal(err)
	}
	low, high := PortRange(t)
	l, err := launchers.OpenHere(map[string]string{"LAUNCHER_DIR": dir, "LAUNCHER_MYSQLD": binaryOf(t, flavour).Path,
		"LAUNCHER_PORTS": fmt.Sprintf("%d-%d", low, high), "LAUNCHER_SPARES": "0"},
		launcher.Options{Supervise: supervise, UnlimitedMemory: true, Settings: append(common, settings...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { killAll(t, l) })
	const user, password = "root_of_test", "a-private-password"
	e, err := l.Launch(t.Context(), launcher.Spec{ID: privateID, MemoryMB: 256, StorageMB: 256, AdminUser: user,
		AdminPassword: password}, func(string) {})
	if err != nil {
		t.Fatalf("start a private server: %v", err)
	}
	server, err := servers.WithBrokerAccount(t.Context(), servers.MySQL{Flavour: flavour, Host: e.Host, Port: e.Port,
		User: user, Password: password, CA: string(e.CACertificate)})
	if err != nil {
		t.Fatal(err)
	}
	return server
}
