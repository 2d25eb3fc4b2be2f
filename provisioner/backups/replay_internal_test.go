package backups

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/binlog"
	"mysql-broker/provisioner/transfer"
)

// TestUnsupported checks what users read about logs that cannot be replayed.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 18, 30, 5, 0, time.UTC)
	for want, err := range map[string]error{
		"has a change of the table `t`. Restore to 2026-11-22T18:30:04Z or earlier, or restore a later backup.": &binlog.
			UnsupportedError{What: "a change of the table `t`", At: at},
		"has events of the kind 40. Restore a later backup.": &binlog.UnsupportedError{What: "events of the kind 40"},
		"(MySQL error 1062)": &mysql.MySQLError{Number: 1062},
	} {
		refused, _ := errors.AsType[*transfer.RefusedError](unsupported(err))
		assert.True(t, refused != nil && strings.Contains(refused.Sentence, want), "%v instead of %q", refused, want)
	}
	err := unsupported(&mysql.MySQLError{Number: 1205})
	assert.True(t, mysqlError(err), "a lock is not waited for: %v", err)
}

func mysqlError(err error) bool {
	_, yes := err.(*mysql.MySQLError)
	return yes
}
