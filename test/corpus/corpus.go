// Package corpus fills databases with what the servers' own test suites create, copies them, dumps and loads them as
// backups and restores do, replays its binary logs, and compares the results with package compare.
package corpus

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mysql-broker/test/servers"
)

// run is one over files of a suite, on a server.
type run struct {
	server  servers.MySQL
	admin   *sql.DB
	root    string   // of the suite
	suite   []string // its files
	charset string   // of the databases, as the suite expects it
	log     func(format string, args ...any)

	// settings of the server, which loses them when a statement of a file ends it. A server that opens a table again can
	// find another next value for AUTO_INCREMENT, after a rollback for example.
	settings []string

	same, refused, different map[string]bool // files, by the worst that became of one of their objects
	objects                  int
}

// elsewhere matches suites whose files need several servers, other engines, options or plugins.
var elsewhere = regexp.MustCompile(`/(?:ndb\w*|galera\w*|wsrep|rpl\w*|binlog\w*|group_replication|x|router|clone|mariabackup|` +
	`encryption|perfschema\w*|sysschema|thread_pool|component_\w*|auth_sec|plugins?|rocksdb\w*|mroonga|spider|connect|federated|` +
	`s3|oqgraph|archive|multi_source|opt_trace|query_rewrite_plugins|test_service\w*|secondary_engine|large_tests|stress|` +
	`innodb_stress|sys_vars|roles|handler|csv|heap|maria|atomic|funcs_2|interactive_utilities|service_\w*|storage_engine|` +
	`audit_null|password_\w*|client|unit|optimizer_unfixed_bugs|innodb_undo|merge|memcached|engines)/`)

// list lists the files of a suite. Those of plug-ins that servers have built in are beside the others.
func list(root string) (files []string, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		own, _ := filepath.Rel(root, path)
		own = strings.TrimPrefix(own, "plugin")
		if err == nil && filepath.Ext(path) == ".test" && !elsewhere.MatchString("/"+own) {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

// files runs files, as many in one database as give enough objects, and finds out of which of them a failure is that
// names none of their objects.
func (r *run) files(ctx context.Context, files []string) error {
	for len(files) > 0 {
		n, err := r.batch(ctx, files)
		if unnamed, ok := errors.AsType[*unnamedError](err); ok {
			if n == 1 {
				r.differs(files[0], unnamed.Error())
			} else if err = r.files(ctx, files[:n/2]); err == nil {
				err = r.files(ctx, files[n/2:n])
			}
		}
		if _, ok := errors.AsType[*unnamedError](err); err != nil && !ok {
			return err
		}
		r.finished(files[:n]...)
		files = files[n:]
	}
	return nil
}

// unnamedError is a failure of a copy or restore that names no object.
type unnamedError struct{ error }

// differs records that an object of a file is not the same in the copy.
func (r *run) differs(file, how string) {
	r.different[file] = true
	r.log("%s: %s", r.short(file), how)
}

// refuses records that an object of a file cannot be copied.
func (r *run) refuses(file, why string) {
	r.refused[file] = true
	r.log("%s: refused: %s", r.short(file), why)
}

// finished says what became of files.
func (r *run) finished(files ...string) {
	for _, file := range files {
		outcome := "nothing created"
		switch {
		case r.different[file]:
			outcome = "different"
		case r.refused[file]:
			outcome = "refused"
		case r.same[file]:
			outcome = "same"
		}
		r.log("%s: %s", r.short(file), outcome)
	}
}

// short is the path of a file in its suite.
func (r *run) short(file string) string { return strings.TrimPrefix(file, r.root+"/") }

// summary counts the files that created something, by suite and in all.
func (r *run) summary() string {
	type counts struct{ all, refused, different int }
	suites := map[string]counts{}
	for file := range r.same {
		for _, suite := range []string{suiteOf(r.short(file)), "all"} {
			c := suites[suite]
			c.all++
			switch {
			case r.different[file]:
				c.different++
			case r.refused[file]:
				c.refused++
			}
			suites[suite] = c
		}
	}
	var text strings.Builder
	for _, suite := range slices.Sorted(maps.Keys(suites)) {
		c := suites[suite]
		fmt.Fprintf(&text, "\n%s: %d files, %d same, %d refused, %d different", suite, c.all, c.all-c.refused-c.different, c.refused,
			c.different)
	}
	return fmt.Sprintf("%d objects%s", r.objects, text.String())
}

// suiteOf is the suite of a file: the directory below suite or plugin, or that of the server's own tests.
func suiteOf(file string) string {
	parts := strings.Split(file, "/")
	if len(parts) > 2 && (parts[0] == "suite" || parts[0] == "plugin") {
		return parts[1]
	}
	return parts[0]
}
