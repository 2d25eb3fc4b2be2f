// Package ha kills primaries: that of the broker's PostgreSQL, and those of clusters of MySQL and MariaDB servers. It
// compares what platforms were told with what is left. The long form, with the environment variable HA=long, repeats
// each failover and prints how long they take.
package ha

import (
	"os"
	"testing"

	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

func long() bool { return os.Getenv("HA") == "long" }

// rounds is how often a failover is repeated.
func rounds(inLongForm int) int {
	if long() {
		return inLongForm
	}
	return 1
}
