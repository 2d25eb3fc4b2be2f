package mysqldimage_test

import (
	"os"
	"strings"
	"testing"

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
			if !found || !strings.Contains(part, " "+o) {
				t.Errorf("%s: the option %s is missing", flavour, o)
			}
		}
	}
	dockerfile, err := os.ReadFile("Dockerfile")
	if err != nil || !strings.Contains(string(dockerfile), `\"$FLAVOUR\" `+mysqldimage.DataDir+" ") {
		t.Errorf("the image has its data directory elsewhere: %v", err)
	}
}
