package mysqladmin

import (
	"bytes"
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFilesThatAreLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		files, tables, connections string
		left                       bool
	}{
		{"10000", "4000", "1000", true}, {"10000", "4000", "2500", true}, {"10000", "4000", "2501", false},
		{"5000", "2000", "1000", true}, {"5000", "4000", "151", false}, {"1024", "300", "151", false},
	} {
		v := values{"open_files_limit": c.files, "innodb_open_files": c.tables, "max_connections": c.connections}
		assert.Equal(t, c.left, leavesFiles(v), "%v: left %t", v, !c.left)
	}
}

func TestEachEngineHasToBeDisabled(t *testing.T) {
	t.Parallel()
	for n, engine := range otherEngines {
		others := slices.Delete(slices.Clone(otherEngines), n, n+1)
		v := values{"engine " + engine: "YES", "disabled_storage_engines": strings.Join(others, ",")}
		assert.False(t, disablesOtherEngines(v), engine)
		v["disabled_storage_engines"] += ", " + strings.ToLower(engine)
		assert.True(t, disablesOtherEngines(v), engine)
	}
}

func TestTimeZones(t *testing.T) {
	t.Parallel()
	statements, err := TimeZones()
	require.NoError(t, err)
	total := 0
	for _, statement := range statements {
		total += len(statement)
		assert.False(t, len(statement) > 20_000 || strings.ContainsAny(statement, "\n;"),
			"servers cannot read %.100s … from a file: %d bytes", statement, len(statement))
	}
	last := statements[len(statements)-1]
	assert.True(t, strings.HasPrefix(last, "INSERT INTO mysql.time_zone_name ") && total <= 2<<20,
		"%d bytes, of which the last are %.100s", total, last)
	zurich, err := time.LoadLocation("Europe/Zurich")
	require.NoError(t, err)
	z := readZone(zurich)
	got := z.kinds
	assert.True(t, len(got) == 2 && got[0] == (zoneKind{3600, 0, "CET"}) && got[1] == (zoneKind{7200, 1, "CEST"}),
		"Zurich: %v", got)
	summer := zoneTransition{time.Date(1981, 3, 29, 1, 0, 0, 0, time.UTC).Unix(), 1}
	assert.True(t, z.transitions[0].kind == 0 && z.transitions[1] == summer, "Zurich: %v", z.transitions[:2])
	// Hosts without the package tzdata-legacy, or tzdata, have what is in the program: rules instead of their times.
	slim, err := time.LoadLocationFromTZData("Slim", slimZone("CET-1CEST,M3.5.0,M10.5.0/3"))
	require.NoError(t, err)
	rules := readZone(slim)
	from := func(z zone, year int) []zoneTransition {
		at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
		n, _ := slices.BinarySearchFunc(z.transitions, at, func(t zoneTransition, at int64) int { return cmp.Compare(t.at, at) })
		return z.transitions[n:]
	}
	assert.Equal(t, z.kinds, rules.kinds)
	assert.Equal(t, from(z, 1996), from(rules, 1996), "by rules")
	assert.Len(t, readZone(time.UTC).transitions, 1)
}

// slimZone is a time zone with nothing but a rule, in the format of RFC 8536.
func slimZone(rule string) []byte {
	var out bytes.Buffer
	for range 2 { // the version with four bytes for a time, and that with eight
		out.WriteString("TZif2" + strings.Repeat("\x00", 15))
		_ = binary.Write(&out, binary.BigEndian, []uint32{0, 0, 0, 0, 1, 4}) // one type, and its abbreviation
		out.WriteString("\x00\x00\x0e\x10\x00\x00CET\x00")
	}
	out.WriteString("\n" + rule + "\n")
	return out.Bytes()
}

// full is a server that has one connection left.
type full struct{ taken atomic.Bool }

func (f *full) Driver() driver.Driver { return nil }

func (f *full) Connect(context.Context) (driver.Conn, error) {
	if f.taken.Swap(true) {
		return nil, &mysql.MySQLError{Number: errTooManyConnections}
	}
	return connected{}, nil
}

type connected struct{ driver.Conn }

func (connected) Close() error { return nil }

// Whoever needs a connection to a full server waits for the one that the broker has there, and gets it from whoever has
// it now.
func TestPoolOfAFullServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &full{}
		p := newPool(server, 3)
		defer p.Close()
		only, err := p.Conn(t.Context())
		require.NoError(t, err)
		pinged := make(chan error)
		for range 3 {
			go func() { pinged <- p.PingContext(t.Context()) }()
		}
		synctest.Wait()
		require.NoError(t, only.Close())
		for range 3 {
			assert.NoError(t, <-pinged)
		}
		only, err = p.Conn(t.Context())
		require.NoError(t, err)
		go func() { pinged <- p.PingContext(t.Context()) }()
		synctest.Wait()
		server.taken.Store(false)
		assert.NoError(t, <-pinged, "once the server has room again")
		assert.NoError(t, only.Close())
	})
}

// Settings lists the settings of a shared server of the flavour with that name.
func Settings(flavour string) []Setting { return settings[flavour] }

// readOnly is a member of Group Replication that is not its primary.
type readOnly struct{ groupPrimaries [][2]string }

func (r readOnly) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	switch query {
	case replicationStatus:
		return &rows{{"read_only", "1"}}, nil
	case groupPrimaries:
		return (*rows)(&r.groupPrimaries), nil
	}
	return &rows{}, nil
}

type rows [][2]string

func (r *rows) Columns() []string { return make([]string, 2) }
func (r *rows) Close() error      { return nil }

func (r *rows) Next(row []driver.Value) error {
	if len(*r) == 0 {
		return io.EOF
	}
	row[0], row[1] = (*r)[0][0], (*r)[0][1]
	*r = (*r)[1:]
	return nil
}

// A member that accepts no writes names the primary of its group as the broker's uri has to.
func TestPrimaryThatIsNotListed(t *testing.T) {
	t.Parallel()
	err := writable(t.Context(), readOnly{[][2]string{{"2001:db8::1", "3306"}}})
	assert.ErrorContains(t, err, "the primary of its group is [2001:db8::1]:3306,")
	assert.Equal(t, errReadOnlyNode, writable(t.Context(), readOnly{}))
}
