// Package backups tests what becomes of data, with the compiled broker: backups, archives of binary logs, restores,
// retained data, and recovery from a lost PostgreSQL or lost servers.
package backups

import (
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

type body = testdrive.Body

func TestMain(m *testing.M) { servers.Main(m) }
