package kubernetes_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/servers"
)

// An upgrade that fails leaves the version and the data of before; one that succeeds keeps the data and the address.
func TestUpgrade(t *testing.T) {
	eachImage(t, func(t *testing.T, image kubernetes.Image) {
		i := slices.IndexFunc(cluster.Binaries(), func(b mysqld.Binary) bool { return cluster.ImageName(b) == image.Name })
		later := servers.Renumbered(t, cluster.Binaries()[i])
		node, played := shared.Node.(*cluster.Node)
		if !played {
			t.Skip("a real node has no image of a later version")
		}
		good, bad := "later/"+image.Name, "broken/"+image.Name
		node.AddImage(good, later)
		node.AddImage(bad, broken(t, cluster.Binaries()[i]))
		p := newPlace(t, image)
		old := p.open(t)
		spec := newSpec()
		e, _ := launch(t, old, spec)
		conn := visit(t, spec, e)
		for _, statement := range []string{"CREATE DATABASE app", "CREATE TABLE app.t AS SELECT 42 AS n",
			"CREATE VIEW app.v AS SELECT n FROM app.t", "CREATE USER tenant IDENTIFIED BY 'secret'"} {
			if _, err := conn.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		spec.Version = later.Version

		p.cfg.Images = []kubernetes.Image{image, {Flavour: image.Flavour, Version: later.Version, Name: bad}}
		l := p.open(t).(launcher.Upgrader)
		upgrade := func(ctx context.Context) (launcher.Endpoint, error) { return l.Upgrade(ctx, spec, func(string) {}) }
		revert := func(ctx context.Context) (launcher.Endpoint, error) { return l.Revert(ctx, spec, func(string) {}) }
		_, sentences, err := finish(t, upgrade)
		failed, ok := errors.AsType[*launcher.Error](err)
		if !ok || failed.Action != launcher.GiveUp || !strings.Contains(failed.Sentence, "could not be upgraded to") {
			t.Fatalf("the broken version: %v, after %q", err, slices.Compact(sentences))
		}
		t.Logf("%v", err)
		if _, _, err := finish(t, revert); err != nil {
			t.Fatal(err)
		}
		expectVersion(t, visit(t, spec, e), image.Version)

		p.cfg.Images[1].Name = good
		l = p.open(t).(launcher.Upgrader)
		upgraded, sentences, err := finish(t, upgrade)
		if err != nil {
			t.Fatalf("%v, after %q", err, slices.Compact(sentences))
		}
		if upgraded.Host != e.Host || upgraded.Port != e.Port {
			t.Errorf("the address was %s:%d and is %s:%d", e.Host, e.Port, upgraded.Host, upgraded.Port)
		}
		expectVersion(t, visit(t, spec, e), later.Version)
		var claims struct {
			Items []struct {
				Metadata struct{ Name, DeletionTimestamp string }
			}
		}
		p.Do(t, http.MethodGet, p.Path("persistentvolumeclaims"), nil, &claims)
		if slices.ContainsFunc(claims.Items, func(c struct {
			Metadata struct{ Name, DeletionTimestamp string }
		}) bool {
			return strings.HasSuffix(c.Metadata.Name, "-before") && c.Metadata.DeletionTimestamp == ""
		}) {
			t.Errorf("the copy stays: %v", claims)
		}
		before := uid(t, p, spec)
		if _, _, err := finish(t, upgrade); err != nil || uid(t, p, spec) != before {
			t.Errorf("an upgrade to the same version: %v", err)
		}
		spec.Version = image.Version
		if _, _, err := finish(t, upgrade); err == nil {
			t.Error("the server went back")
		}
		if err := destroy(t, l, spec.ID); err != nil {
			t.Error(err)
		}
	})
}

// broken makes a program that ends as it starts.
func broken(t *testing.T, b mysqld.Binary) mysqld.Binary {
	t.Helper()
	dir, err := os.MkdirTemp("", "broken")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	tree := filepath.Join(dir, "tree")
	if err := servers.LinkTree(b, tree); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(tree, "bin", filepath.Base(b.Path))
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho it is broken >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.BaseDir = tree
	return b
}

func expectVersion(t *testing.T, conn *sql.Conn, version string) {
	t.Helper()
	var got string
	var n, accounts int
	if err := conn.QueryRowContext(t.Context(), `SELECT VERSION(), n, (SELECT COUNT(*) FROM mysql.user WHERE user = 'tenant')
		FROM app.v`).Scan(&got, &n, &accounts); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got, version) || n != 42 || accounts != 1 {
		t.Errorf("version %s with %d and %d accounts, want %s", got, n, accounts, version)
	}
}
