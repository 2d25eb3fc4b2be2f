package testdrive

import (
	"context"
	"testing"
	"time"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/process"
	"mysql-broker/test/servers"
)

// Private starts a server that no other test uses, for tests that stall it. It is gone when the test ends.
func Private(t testing.TB, flavour string) servers.MySQL {
	t.Helper()
	return privateIn(t, launcherDir(t), flavour)
}

const privateID = "private"

func privateIn(t testing.TB, dir, flavour string) servers.MySQL {
	t.Helper()
	low, high := portRange()
	l, err := process.New(process.Config{Dir: dir, Binary: mysqld(t, flavour), PortMin: low, PortMax: high})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.StopAll(ctx); err != nil {
			t.Errorf("stop the private server: %v", err)
		}
		l.Close()
	})
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
