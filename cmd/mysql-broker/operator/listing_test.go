package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fruit is a row.
type fruit struct {
	Name  string `json:"n"`
	state string
}

func (f fruit) cells() []cell { return []cell{{"name", f.Name}, {"state", f.state}} }

func TestTableAligns(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	l := newListing[fruit](&out, true, output{})
	require.NoError(t, l.add(fruit{"größer", ""}))
	for range alignAtOnce {
		require.NoError(t, l.add(fruit{"a", "b\nc"}))
	}
	assert.NotEqual(t, 0, out.Len(), "all rows are kept in memory")
	require.NoError(t, l.end())
	lines := strings.Split(out.String(), "\n")
	require.Len(t, lines, alignAtOnce+3)
	assert.Equal(t, []string{"name     state", "größer   -", `a        "b\nc"`}, lines[:3])
	assert.Equal(t, `a   "b\nc"`, lines[alignAtOnce+1], "after the first rows")
}

func TestLists(t *testing.T) {
	t.Parallel()
	asJSON, jsonLines := output{json: true}, output{json: true, lines: true}
	failed := errors.New("PostgreSQL went away")
	for _, test := range []struct {
		output
		rows    []fruit
		err     error // after the rows
		columns []string
		want    string
	}{
		{asJSON, nil, nil, nil, "[]\n"},
		{asJSON, []fruit{{Name: "fig"}}, nil, nil, "[\n{\"n\":\"fig\"}\n]\n"},
		{asJSON, []fruit{{Name: "fig"}, {Name: "<>"}}, nil, nil, "[\n{\"n\":\"fig\"},\n{\"n\":\"<>\"}\n]\n"},
		{asJSON, []fruit{{Name: "fig"}}, failed, nil, "[\n{\"n\":\"fig\"}"},
		{asJSON, nil, failed, nil, ""},
		{jsonLines, nil, nil, nil, ""},
		{jsonLines, []fruit{{Name: "a"}, {Name: "b"}}, failed, nil, "{\"n\":\"a\"}\n{\"n\":\"b\"}\n"},
		{output{}, nil, nil, nil, "name\tstate\n"},
		{output{}, nil, failed, nil, ""},
		{output{}, []fruit{{"a", "ripe"}}, failed, nil, "name\tstate\na\tripe\n"},
		{output{}, []fruit{{"a", "ripe"}}, nil, []string{"state"}, "state\nripe\n"},
		{output{limit: 2}, []fruit{{"a", ""}, {"b", ""}, {"c", ""}}, failed, nil, "name\tstate\na\t-\nb\t-\n"},
	} {
		var out strings.Builder
		err := printList(&out, test.output, these(test.rows, test.err), test.columns...)
		if test.limit > 0 {
			test.err = nil // it is not reached
		}
		assert.True(t, out.String() == test.want && errors.Is(err, test.err), "%+v: %q, %v", test, &out, err)
	}
}

// Rows that are not wanted are not read.
func TestRowsOfEndsEarly(t *testing.T) {
	t.Parallel()
	read := 0
	each := func(_ context.Context, most int, fn func(int) error) error {
		for read < most {
			read++
			if err := fn(read); err != nil {
				return fmt.Errorf("row %d: %w", read, err)
			}
		}
		return errors.New("there are no more rows")
	}
	rows := rowsOf(t.Context(), 3, each, func(n int) fruit { return fruit{Name: fmt.Sprint(n)} })
	found, err := collect(rows, 2)
	assert.True(t, err == nil && len(found) == 2 && read == 2, "two of three: %v, %v; read: %d", found, err, read)
	found, err = collect(rows, 0)
	assert.True(t, err != nil && found == nil, "all, and an error: %v, %v", found, err)
}

// TestAgo describes past, present and future times.
func TestAgo(t *testing.T) {
	t.Parallel()
	for passed, want := range map[time.Duration]string{
		90 * time.Minute:              "90 min ago",
		2500 * time.Millisecond:       "2 s ago",
		0:                             "just now",
		-500 * time.Millisecond:       "just now",
		-(49*time.Hour + time.Second): "in 2 d",
	} {
		assert.Equal(t, want, ago(time.Now().Add(-passed)), "after %v", passed)
	}
}

func TestAddressOfAServer(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]serverDocument{"": {Port: 3306}, "db.example:3306": {Host: "db.example", Port: 3306},
		"[::1]:3306": {Host: "::1", Port: 3306}} {
		assert.Equal(t, want, d.address())
	}
}
