package mysqladmin_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/mysqladmin"
)

// A server knows by itself which databases a task had begun to fill, or to fill with other data. What is recorded of a
// mixture goes with its database.
func TestMarkedDatabases(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		f.must(f.session.Databases.Create(t.Context(), f.database, "", ""))
		for _, begun := range []bool{true, false} {
			if begun {
				f.must(f.session.Databases.MarkUnfinished(t.Context(), f.database))
				f.must(f.session.Databases.MarkMixture(t.Context(), f.database, "b_1"))
				f.must(f.session.Databases.MarkMixture(t.Context(), f.database, "b_2"))
			} else {
				f.must(f.session.Databases.MarkFinished(t.Context(), f.database))
				f.must(f.session.Databases.EndMixture(t.Context(), f.database))
			}
			unfinished, err := f.server.UnfinishedDatabases(t.Context())
			f.must(err)
			assert.Equal(t, begun, slices.Contains(unfinished, f.database),
				"begun: %t, the unfinished databases are %q", begun, unfinished)
			mixed, err := f.server.Mixtures(t.Context())
			f.must(err)
			backup, is := mixed[f.database]
			assert.False(t, is != begun || is && backup != "b_2", "begun: %t, the mixtures are %q", begun, mixed)
		}
		f.must(f.session.Databases.MarkMixture(t.Context(), f.database, "b_1"))
		f.must(f.session.Databases.Drop(t.Context(), f.database))
		mixed, err := f.server.Mixtures(t.Context())
		f.must(err)
		assert.NotContains(t, mixed, f.database, "a database that does not exist")
	})
}

// What arrives on a server is listed there until it leaves.
func TestListedInstances(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		f.must(f.session.Databases.Create(t.Context(), f.database, "", ""))
		f.must(f.server.Marks.WriteMark(t.Context(), f.database, mysqladmin.Mark{TaskID: 1, TaskAt: time.Now()}))
		listed := mysqladmin.ListedInstance{Database: f.database, About: "{}"}
		f.must(f.server.Marks.ListInstances(t.Context(), f.database, []mysqladmin.ListedInstance{listed}))
		for _, want := range []int{1, 0} {
			all, err := f.server.Marks.ListedInstances(t.Context(), f.database)
			assert.True(t, err == nil && len(all) == want, "listed are %+v, %v; want %d", all, err, want)
			f.must(f.server.Marks.Unlist(t.Context(), f.database, f.database))
		}
	})
}
