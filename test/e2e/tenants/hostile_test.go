package tenants

import (
	"io"
	"net"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestHostileInput attacks a broker in many ways at once, and checks that it still serves others.
func TestHostileInput(t *testing.T) {
	t.Parallel()
	h := testdrive.Hostile{Platform: testdrive.StartPlatform(t, servers.Any(t), testdrive.AnyEnvironment(t))}
	t.Run("attacks", func(t *testing.T) {
		for _, attack := range []struct {
			name string
			run  func(*testing.T, testdrive.Hostile)
		}{
			{"contents", testContents}, {"headers", testHeaders}, {"protocol", testProtocol},
		} {
			t.Run(attack.name, func(t *testing.T) {
				t.Parallel()
				attack.run(t, h)
			})
		}
	})
	h.ExpectService(t)
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	// The broker may refuse, and close, before all is sent.
	if _, err := io.WriteString(conn, text); err != nil && !testdrive.CutOff(err) {
		t.Fatal(err)
	}
}
