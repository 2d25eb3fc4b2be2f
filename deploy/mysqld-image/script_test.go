package mysqldimage_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	mysqldimage "mysql-broker/deploy/mysqld-image"
	"mysql-broker/provisioner/launcher/mysqld"
)

// Data directories are created with the options of all launchers, where the launcher looks for them.
func TestInitialise(t *testing.T) {
	t.Parallel()
	script := string(mysqldimage.Initialise)
	for flavour, options := range mysqld.InitialOptions {
		_, part, found := strings.Cut(script, "\n"+flavour+")\n")
		part, _, _ = strings.Cut(part, ";;")
		for _, o := range options {
			assert.True(t, found && strings.Contains(part, " "+o), "%s: the option %s is missing", flavour, o)
		}
	}
	dockerfile, err := os.ReadFile("Dockerfile")
	assert.True(t, err == nil && strings.Contains(string(dockerfile), `\"$FLAVOUR\" `+mysqldimage.DataDir+" "),
		"the image has its data directory elsewhere: %v", err)
}
