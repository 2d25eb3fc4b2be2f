package e2e

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestStalledServer has a server keep a provision waiting.
func TestStalledServer(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	private := testdrive.Private(t, s.Flavour)
	p := testdrive.StartPlatform(t, private, testdrive.Environment(t, private))
	t.Run("polls", func(t *testing.T) { testPollsHaveDescriptions(t, p) })
	t.Run("clients that leave", func(t *testing.T) { testClientsThatLeave(t, p) })
}

// If a client leaves, its operation continues, and is not logged as a failure. A client that only closes the half
// on which it sends, as `nc -N` does, gets the response.
func testClientsThatLeave(t *testing.T, p testdrive.Platform) {
	left := provisionStalled(t, p, func(conn *net.TCPConn) { conn.Close() })
	testdrive.Eventually(t, limits.Stuck, "the operation goes on", func() bool {
		return left.Fetch(t).Status == http.StatusOK
	})

	var half *net.TCPConn
	answered := provisionStalled(t, p, func(conn *net.TCPConn) {
		require.NoError(t, conn.CloseWrite())
		half = conn
	})
	defer half.Close()
	require.NoError(t, half.SetReadDeadline(time.Now().Add(time.Minute)))
	answer, err := http.ReadResponse(bufio.NewReader(half), nil)
	require.NoError(t, err)
	answer.Body.Close()
	assert.Equal(t, http.StatusCreated, answer.StatusCode,
		"who closes only the half that it sends on is answered %s", answer.Status)
	answered.Fetch(t).Expect(t, http.StatusOK)

	const provisions = `mysql_broker_http_requests_total{method="PUT",route="/v2/service_instances/{instance_id}",status=`
	awaitFigures(t, p, map[string]string{provisions + `"client left"}`: "2", provisions + `"500"}`: ""})
	for line := range strings.Lines(p.Log()) {
		assert.False(t, strings.Contains(line, `"level":"ERROR"`), "an error is logged: %s", line)
	}
	assert.Contains(t, p.AwaitLog(t, `"client_left":true`), `"level":"INFO"`, "the line of a request")
	left.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)
	answered.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)
}

// provisionStalled asks for an instance, and has the client do something while the server makes it.
func provisionStalled(t *testing.T, p testdrive.Platform, meanwhile func(*net.TCPConn)) testdrive.Instance {
	t.Helper()
	admin := p.Admin(t)
	release := testdrive.Stall(t, admin)
	i := p.OwnInstance(t, "shared-small")
	conn, err := testdrive.SendProvision(i)
	require.NoError(t, err)
	testdrive.AwaitStatement(t, admin, "CREATE DATABASE")
	meanwhile(conn)
	for range 3 { // the broker has noticed then what came before
		p.Do(t, "GET", "/healthz", nil).Expect(t, http.StatusOK)
	}
	release()
	return i
}
