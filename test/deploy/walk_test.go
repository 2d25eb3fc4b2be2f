package deploy

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
)

var walkRow = regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\| `([a-z/]+\\.go)` \\|")

// The functions in the walk of a provision are in the files that docs/architecture.md names, and they are at most twelve.
func TestWalkOfAProvision(t *testing.T) {
	t.Parallel()
	rows := walkRow.FindAllStringSubmatch(readFile(t, "docs/architecture.md"), -1)
	assert.True(t, len(rows) >= 5 && len(rows) <= 12,
		"docs/architecture.md: the walk of a provision has %d functions, and should have at most 12", len(rows))
	for _, row := range rows {
		function, file := row[1], row[2]
		assert.True(t, regexp.MustCompile(`(?m)^func (\([^)]*\) )?`+function+`\(`).MatchString(readFile(t, file)),
			"docs/architecture.md: %s has no function %s: name the one that took its place", file, function)
	}
}
