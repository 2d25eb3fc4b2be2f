package mysqladmin

import (
	"testing"

	"github.com/stretchr/testify/assert"
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
