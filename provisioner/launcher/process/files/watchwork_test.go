package files

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An upgrade works as long as files change. A server that hangs changes none.
func TestWatchWork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		said := make(chan string, 9)
		look := func(change func()) (all []string) {
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
			require.NoError(t, err)
			defer f.Close()
			_, err = f.WriteString(text)
			require.NoError(t, err)
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
				assert.NoError(t, os.Chtimes(file, later, later))
			}, []string{"Upgrading", "works: Upgrading"}},
			{"nothing", func() {}, nil},
			{"a file is removed", func() { _ = os.Remove(file) }, []string{"works: Upgrading"}},
			{"it has ended", func() { end(); write("d", 0) }, nil},
		} {
			got := look(step.change)
			assert.True(t, slices.Equal(got, step.want), "%s: %q, wanted %q", step.what, got, step.want)
		}
	})
}
