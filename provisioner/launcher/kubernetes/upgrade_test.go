package kubernetes_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/launchertest"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// An upgrade that fails leaves the version and the earlier data; one that succeeds keeps the data and the address.
func TestUpgrade(t *testing.T) {
	eachImage(t, func(t *testing.T, image kubernetes.Image) {
		i := slices.IndexFunc(cluster.Binaries(), func(b mysqld.Binary) bool { return cluster.ImageName(b) == image.Name })
		present := cluster.Binaries()[i]
		renumbered, later := servers.Renumbered(t, present), servers.Later(t, present)
		add := func(prefix string, b mysqld.Binary) string {
			name, err := shared.Node.AddImage(t.Context(), prefix, image.Name, b)
			require.NoError(t, err)
			return name
		}
		program := filepath.Base(present.Path)
		lose := "DELETE FROM mysql.user WHERE user = 'tenant';"
		if image.Flavour == mysqld.MariaDB {
			lose = "DELETE FROM mysql.global_priv WHERE user = 'tenant'; DELETE FROM mysql.event WHERE name = 'e';"
		}
		good, bad, forgetful := add("later", later),
			add("broken", servers.Altered(t, present, renumbered, program, "echo it is broken >&2\nexit 1\n")),
			add("forgetful", servers.Altered(t, present, renumbered, program,
				`echo "`+lose+`" | tr ';' '\n' | sed '/./s/$/;/' >/tmp/lose.sql
exec `+cluster.AddedDir+`/bin/real "$@" --init-file=/tmp/lose.sql
`))
		// The first attempt to put data back fails.
		image.Name = add("stumbling", servers.Altered(t, present, present, "sync", `if [ -e /before/copy-*/begun ] && [ ! -e /before/stumbled ]; then
	touch /before/stumbled
	exit 137
fi
exec /bin/sync "$@"
`))
		p := newPlace(t, image)
		old := p.open(t)
		spec := newSpec()
		e := launch(t, old, spec)
		conn := launchertest.Visit(t, spec, e)
		for _, statement := range []string{"CREATE DATABASE app", "CREATE TABLE app.t AS SELECT 42 AS n",
			"CREATE VIEW app.v AS SELECT n FROM app.t", "CREATE USER tenant IDENTIFIED BY 'secret'",
			"CREATE EVENT app.e ON SCHEDULE EVERY 1 DAY DO SELECT 1"} {
			_, err := conn.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
		spec.Version = renumbered.Version

		open := func(p *place, image string) launcher.Upgrader {
			p.cfg.Images = []kubernetes.Image{p.cfg.Images[0], {Flavour: present.Flavour, Version: spec.Version, Name: image}}
			return p.open(t).(launcher.Upgrader)
		}
		var l launcher.Upgrader
		ignore := func(string) {}
		var worked []string
		works := func(sentence string) { worked = append(worked, sentence) }
		upgrade := func(ctx context.Context) (launcher.Endpoint, error) { return l.Upgrade(ctx, spec, ignore, works) }
		revert := func(ctx context.Context) (launcher.Endpoint, error) { return l.Revert(ctx, spec, ignore, works) }
		fails := func(what string, why ...string) {
			_, sentences, err := finish(t, upgrade)
			failed, ok := errors.AsType[*launcher.Error](err)
			require.True(t, ok && failed.Action == launcher.GiveUp, "%s: %v, after %q", what, err, slices.Compact(sentences))
			require.Contains(t, failed.Sentence, "could not be upgraded to", what)
			for _, why := range why {
				assert.ErrorContains(t, err, why, what)
			}
		}
		succeeds := func(what string, call call) {
			_, sentences, err := finish(t, call)
			assert.NoError(t, err, "%s, after %q", what, slices.Compact(sentences)) // a proxy calls it too
			expectVersion(t, launchertest.Visit(t, spec, e), image.Version)
		}

		l = open(p, "test/none")
		awaitSentence(t, "an upgrade", "Fetching the image", upgrade)
		l = open(p.hasty(), "test/none")
		fails("an image that cannot be fetched", "ErrImagePull")
		succeeds("revert without an image", revert)
		awaitNoCopy(t, p)

		p.restate(t, spec, map[string]any{"storage_class": "none"})
		l = open(p, good)
		awaitSentence(t, "an upgrade", "Preparing the volumes", upgrade)
		l = open(p.hasty(), good)
		fails("a copy without a volume", "laim") // a scheduler names it, or else the launcher does
		p.restate(t, spec, map[string]any{"storage_class": nil})
		spec.MemoryMB *= 2
		succeeds("resize after that", resizing(l, spec))
		awaitNoCopy(t, p)

		l = open(p, forgetful)
		lost := []string{"account tenant@%"}
		if image.Flavour == mysqld.MariaDB {
			lost = append(lost, "event app.e")
		}
		fails("a version that loses objects", lost...)
		succeeds("revert after a loss", revert)

		l = open(p, bad)
		reverted := false
		paused := open(p.behind(t, pausedBefore(func(r *http.Request, _ []byte) bool {
			return strings.Contains(r.URL.Path, "/statefulsets/") && r.URL.Query().Has("fieldManager")
		}, func() {
			succeeds("revert while another broker is paused", revert)
			reverted = true
		})), bad)
		for !reverted {
			_, err := paused.Upgrade(t.Context(), spec, ignore, ignore)
			require.False(t, err == nil || !reverted && !isNotYet(err), "upgrade by a broker that was paused: %v", err)
		}
		assert.NotContains(t, p.pictureOf(t, spec), `"mysql-broker/work"`, "a broker that was paused orders a pod for it")
		fails("the broken version", "it is broken")
		paused = open(p.behind(t, pausedBefore(recordsReady, func() {
			succeeds("revert while another broker is paused", revert)
			_, err := upgrade(t.Context())
			assert.True(t, isNotYet(err), "upgrade while another broker is paused: %v", err)
		})), bad)
		_, _, err := finish(t, func(ctx context.Context) (launcher.Endpoint, error) {
			return paused.Revert(ctx, spec, ignore, ignore)
		})
		assert.ErrorContains(t, err, "another broker has continued its work", "a broker that was paused ends the upgrade")
		succeeds("revert", revert)

		spec.Version = later.Version
		l = open(p, good)
		upgraded, sentences, err := finish(t, upgrade)
		require.NoError(t, err, "after %q", slices.Compact(sentences))
		assert.Contains(t, "\n"+strings.Join(worked, "\n"), "\nUpgrading the data to ", "what worked, as it says")
		assert.Equal(t, e.AdminAddress(), upgraded.AdminAddress())
		expectVersion(t, launchertest.Visit(t, spec, e), later.Version)
		awaitNoCopy(t, p)
		before := uid(t, p, spec)
		_, _, err = finish(t, upgrade)
		assert.True(t, err == nil && uid(t, p, spec) == before, "an upgrade to the same version: %v", err)
		spec.Version = image.Version
		_, _, err = finish(t, upgrade)
		assert.Error(t, err, "the server went back")
		assert.NoError(t, destroy(t, l, spec.ID))
	})
}

func isNotYet(err error) bool {
	e, ok := errors.AsType[*launcher.Error](err)
	return ok && e.Action == launcher.Wait
}

// pausedBefore calls meanwhile before the first request that the function is true for.
func pausedBefore(is func(r *http.Request, body []byte) bool, meanwhile func()) meet {
	var once sync.Once
	return func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
		body, err := io.ReadAll(r.Body)
		if err == nil && r.Method == http.MethodPatch && is(r, body) {
			once.Do(meanwhile)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		pass(w, r)
	}
}

// recordsReady reports whether a change of a Secret ends an upgrade.
func recordsReady(r *http.Request, body []byte) bool {
	return strings.Contains(r.URL.Path, "/secrets/") && bytes.Contains(body,
		[]byte(`"add","path":"/metadata/annotations/mysql-broker~1state","value":"{\"phase\":\"ready\"`))
}

// awaitNoCopy returns once the claim for a copy is removed.
func awaitNoCopy(t *testing.T, p *place) {
	testdrive.Eventually(t, "the end of the copy", func() bool {
		return !slices.ContainsFunc(p.list(t, p.Path("persistentvolumeclaims")), func(claim object) bool {
			return strings.HasSuffix(claim.Metadata.Name, "-before")
		})
	})
}

func expectVersion(t *testing.T, conn *sql.Conn, version string) {
	var got string
	var n, accounts int
	require.NoError(t, conn.QueryRowContext(t.Context(), `SELECT VERSION(), n,
		(SELECT COUNT(*) FROM mysql.user WHERE user = 'tenant') FROM app.v`).Scan(&got, &n, &accounts))
	assert.True(t, strings.HasPrefix(got, version) && n == 42 && accounts == 1,
		"version %s with %d and %d accounts, want %s", got, n, accounts, version)
}
