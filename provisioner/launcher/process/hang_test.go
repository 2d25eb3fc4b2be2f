package process_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

// Sessions that write rows with thousands of texts into temporary tables take all pages of Aria's cache and wait for
// more. A change of an account then waits too, and so do all logins.
func TestServerThatHangsIsStartedAgain(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		if binary.Flavour == mysqld.MySQL {
			return
		}
		cfg := newConfig(t, binary)
		log := warnings(&cfg)
		cfg.SetHangInterval(500 * time.Millisecond)
		l, spec := open(t, cfg), newSpec("hung")
		end := launch(t, l, spec)
		db := connect(t, spec, end)
		testdrive.Exec(t, db, "CREATE DATABASE app", "CREATE TABLE app.t (id INT PRIMARY KEY)", "INSERT INTO app.t VALUES (1)")
		ctx, cancel := context.WithTimeout(t.Context(), limits.Stuck)
		defer cancel()
		row := "SELECT SQL_BUFFER_RESULT " + strings.Repeat("REPEAT(id, 600), ", 2500) + "1 FROM app.t"
		var sessions errgroup.Group
		for _, statement := range []string{row, row, row, row, "CREATE OR REPLACE USER tenant"} {
			session, err := db.Conn(ctx)
			require.NoError(t, err)
			defer session.Close()
			sessions.Go(func() (err error) {
				for err == nil { // until the server ends
					_, err = session.ExecContext(ctx, statement)
				}
				return err
			})
		}
		assert.Error(t, sessions.Wait())
		require.NoError(t, ctx.Err(), "the server hangs on")
		testdrive.Eventually(t, "others can log in", func() bool { return connect(t, spec, end).PingContext(ctx) == nil })
		l.Close()
		assert.Contains(t, log.String(), "restarting a server that hangs", "operators are not told")
	})
}
