package client

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPercentage(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		percent int
		ok      bool
	}{
		"Starting mysqld (3 of 6)":   {33, true},
		"Creating the data (1 of 6)": {0, true},
		"Last thing (4 of 4)":        {75, true},
		"Starting mysqld":            {0, false},
		"odd (7 of 6)":               {0, false},
		"odd (0 of 0)":               {0, false},
	}
	for description, want := range tests {
		percent, ok := percentage(description)
		assert.True(t, percent == want.percent && ok == want.ok,
			"percentage(%q) = %d, %v, want %d, %v", description, percent, ok, want.percent, want.ok)
	}
}

func TestProgressAwayFromTerminalPrintsChanges(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := newProgress(&out)
	p.begin("Creating x")
	for _, description := range []string{"", "one", "one", "two\x1b[2J\u009b"} {
		p.show(description)
	}
	p.end()
	assert.Equal(t, "Creating x: one\nCreating x: two\\u001b[2J\\u009b\n", out.String())
}
