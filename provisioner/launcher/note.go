package launcher

import (
	"fmt"
	"regexp"
)

var validNote = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// CheckNoteName returns an error for a name that a note cannot have, see Launcher.WriteNote.
func CheckNoteName(name string) error {
	if !validNote.MatchString(name) {
		return fmt.Errorf("name of a note %q: want 1 to 64 lower-case letters, digits and dashes", name)
	}
	return nil
}
