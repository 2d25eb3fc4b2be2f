package process_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

// A tenant takes all the memory that it can get: by user variables in one session, then in many, and by buffers that it
// sets as large as it likes. The server neither takes much more than its plan has, nor ends.
func TestPlansMemoryHolds(t *testing.T) {
	eachServer(t, "hungry", func(t *testing.T, s server) {
		testdrive.Exec(t, s.db, "CREATE DATABASE app", "CREATE USER tenant IDENTIFIED BY 'a-password'",
			"GRANT ALL ON app.* TO tenant")
		pid := s.pid(t)
		tenant := s.spec
		tenant.AdminUser, tenant.AdminPassword = "tenant", "a-password"
		db := connect(t, tenant, s.end)
		ctx, cancel := context.WithTimeout(t.Context(), limits.Stuck)
		defer cancel()

		refused := 0
		var sessions []*sql.Conn
		for range 8 {
			session, err := db.Conn(ctx)
			require.NoError(t, err)
			sessions = append(sessions, session)
		}
		for _, session := range sessions {
			for n := range 64 { // 1 GiB
				if _, err := session.ExecContext(ctx, fmt.Sprintf("SET @v%d = REPEAT('x', 16777216)", n)); err != nil {
					refused++
					break
				}
			}
			require.NoError(t, ctx.Err(), "the server hangs")
		}
		assert.Equal(t, 8, refused, "%d of 8 sessions were refused memory", refused)
		// The plan's, and the stacks of all connections that there could be.
		most, got := int64(s.spec.MemoryMB+200)<<20, peakMemory(t, pid)
		assert.True(t, got <= most, "the server took %d MiB of memory, want at most %d", got>>20, most>>20)
		for _, session := range sessions {
			_ = session.Close()
		}
		assert.NoError(t, db.Close())
		db = connect(t, s.spec, s.end)
		testdrive.Eventually(t, "others can log in again", func() bool { return db.PingContext(ctx) == nil })
		for _, name := range []string{"sort_buffer_size", "join_buffer_size", "tmp_table_size", "max_heap_table_size",
			"group_concat_max_len"} {
			session, err := connect(t, tenant, s.end).Conn(ctx)
			require.NoError(t, err)
			_, err = session.ExecContext(ctx, "SET SESSION "+name+" = 1073741824")
			assert.NoError(t, err, name)
			var got int64
			err = session.QueryRowContext(ctx, "SELECT @@"+name).Scan(&got)
			assert.True(t, err == nil && got <= 16<<20, "a session has a %s of %d (%v)", name, got, err)
			_ = session.Close()
		}
	})
}

// A tenant who holds all the memory keeps nobody from logging in for long, who is to end its sessions: the broker.
func TestServerWithoutMemoryIsStartedAgain(t *testing.T) {
	eachServer(t, "sated", func(t *testing.T, s server) {
		pid := s.pid(t)
		session, err := s.db.Conn(t.Context())
		require.NoError(t, err)
		defer session.Close()
		n := 0
		for size := 16 << 20; size >= 4<<10; { // smaller and smaller, until nothing fits
			n++
			if _, err := session.ExecContext(t.Context(), fmt.Sprintf("SET @v%d = REPEAT('x', %d)", n, size)); err != nil {
				size /= 2
			}
			require.True(t, n <= 100_000, "the memory has no end")
		}
		testdrive.Eventually(t, "the server is started again", func() bool { return !alive(pid) })
		testdrive.Eventually(t, "others can log in", func() bool {
			return connect(t, s.spec, s.end).PingContext(t.Context()) == nil
		})
		s.l.Close()
		assert.Contains(t, s.log.String(), "all the memory of its plan", "operators are not told")
	})
}

// What fits into the plan works: a blob as large as a packet may be, a sort of many rows, and an intermediate result
// with as many texts as the flavour allows.
func TestPlansMemorySuffices(t *testing.T) {
	eachServer(t, "modest", func(t *testing.T, s server) {
		testdrive.Exec(t, s.db, "CREATE DATABASE app", "CREATE TABLE app.t (id INT PRIMARY KEY, b LONGBLOB)")
		blob := strings.Repeat("x", 15<<20)
		_, err := s.db.ExecContext(t.Context(), "INSERT INTO app.t VALUES (1, ?)", blob)
		require.NoError(t, err)
		assert.Equal(t, 15<<20+1, testdrive.Read[int](t, s.db, "SELECT length(concat(b, 'y')) FROM app.t"))
		for range 100 {
			session, err := s.db.Conn(t.Context())
			require.NoError(t, err)
			defer session.Close()
			_, err = session.ExecContext(t.Context(), "SET @a = repeat('x', 1000)")
			assert.NoError(t, err)
		}
		const sorted = "WITH RECURSIVE s AS (SELECT 1 n UNION ALL SELECT n + 1 FROM s WHERE n < 1000) " +
			"SELECT count(*) FROM (SELECT repeat(rand(), 10) r FROM s, s t WHERE t.n < 100 ORDER BY r LIMIT 1000) x"
		assert.EqualValues(t, 1000, testdrive.Read[int64](t, s.db, sorted), "rows that were sorted")
		texts := map[string]int{mysqld.MySQL: 1000, mysqld.MariaDB: 2500}[s.cfg.Binary.Flavour]
		ctx, cancel := context.WithTimeout(t.Context(), limits.Stuck)
		defer cancel()
		_, err = s.db.ExecContext(ctx, "SELECT SQL_BUFFER_RESULT "+strings.Repeat("REPEAT(id, 600), ", texts)+"1 FROM app.t")
		assert.NoError(t, err, "a row of %d texts", texts)
	})
}

// peakMemory is the most that a process has had resident, in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	p, err := procfs.NewProc(pid)
	require.NoError(t, err)
	status, err := p.NewStatus()
	require.NoError(t, err)
	return int64(status.VmHWM)
}
