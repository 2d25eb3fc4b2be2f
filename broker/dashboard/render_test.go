package dashboard

import "testing"

func TestShellText(t *testing.T) {
	for name, want := range map[string]string{
		"my-db_2.x":      "my-db_2.x",
		"--force":        "'--force'",
		"a b":            "'a b'",
		"x; rm -r $HOME": "'x; rm -r $HOME'",
		"it's":           `'it'\''s'`,
	} {
		if got := shellText(name); got != want {
			t.Errorf("%s is shown as %s", name, got)
		}
	}
}
