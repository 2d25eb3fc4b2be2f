package files

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// An upgrade works as long as files change. A server that hangs changes none.
func TestWatchWork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		said := make(chan string, 9)
		look := func(change func()) (all []string) {
			t.Helper()
			change()
			time.Sleep(WorkInterval)
			synctest.Wait()
			for len(said) > 0 {
				all = append(all, <-said)
			}
			return all
		}
		note := func(sentence string) { said <- sentence }
		report, end := WatchWork(dir, WorkInterval, note, func(sentence string) { note("works: " + sentence) })
		defer end()
		synctest.Wait()
		file := filepath.Join(dir, "a")
		write := func(text string, mode int) {
			f, err := os.OpenFile(file, mode|os.O_WRONLY|os.O_CREATE, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteString(text); err != nil {
				t.Fatal(err)
			}
		}
		for _, step := range []struct {
			what   string
			change func()
			want   []string
		}{
			{"nothing to say", func() { write("a", 0) }, nil},
			{"a sentence alone", func() { report("Copying") }, []string{"Copying"}},
			{"a file grows", func() { write("b", os.O_APPEND) }, []string{"works: Copying"}},
			{"another sentence and a file that is written again", func() {
				report("Upgrading")
				later := time.Now().AddDate(100, 0, 0)
				if err := os.Chtimes(file, later, later); err != nil {
					t.Error(err)
				}
			}, []string{"Upgrading", "works: Upgrading"}},
			{"nothing", func() {}, nil},
			{"a file is removed", func() { _ = os.Remove(file) }, []string{"works: Upgrading"}},
			{"it has ended", func() { end(); write("d", 0) }, nil},
		} {
			if got := look(step.change); !slices.Equal(got, step.want) {
				t.Errorf("%s: %q, wanted %q", step.what, got, step.want)
			}
		}
	})
}
