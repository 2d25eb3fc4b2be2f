package dashboard

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestShellText(t *testing.T) {
	for name, want := range map[string]string{
		"my-db_2.x":      "my-db_2.x",
		"--force":        "'--force'",
		"a b":            "'a b'",
		"x; rm -r $HOME": "'x; rm -r $HOME'",
		"it's":           `'it'\''s'`,
	} {
		assert.Equal(t, want, shellText(name), "%s is shown as", name)
	}
}
