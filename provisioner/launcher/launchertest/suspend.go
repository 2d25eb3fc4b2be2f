package launchertest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"mysql-broker/provisioner/launcher"
)

// trySuspend suspends a server, however often that takes.
func trySuspend(ctx context.Context, l launcher.Launcher, id string) error {
	_, err := await(ctx, func() (launcher.Endpoint, error) { return launcher.Endpoint{}, l.Suspend(ctx, id) })
	return err
}

// A suspended server does not run, is listed, and keeps its data, until it is launched again, with other limits. It may
// be destroyed instead.
func testSuspend(t *testing.T, p Place) {
	l := p.Open(t)
	if err := trySuspend(bounded(t), l, "never"); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("suspend what is not there: %v, want ErrNotFound", err)
	}
	spec := p.spec("one")
	before := launch(t, l, spec)
	db := connect(t, spec, before)
	execute(t, db, "CREATE DATABASE app", "CREATE TABLE app.t (n INT)", "INSERT INTO app.t VALUES (42)")
	small := query(t, db, "SELECT @@innodb_buffer_pool_size")
	if err := l.Keep(bounded(t), spec.ID); err != nil {
		t.Fatal(err)
	}
	expectSigned(t, l, before, spec.ID)
	heir := p.Open(t)
	for _, by := range []launcher.Launcher{l, heir} {
		if err := trySuspend(bounded(t), by, spec.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := connect(t, spec, before).PingContext(bounded(t)); err == nil {
		t.Error("suspended, it lets its administrator in")
	}
	if _, err := heir.Endpoint(bounded(t), spec.ID); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("the endpoint of a suspended server: %v, want ErrNotFound", err)
	}
	if _, err := tryResize(bounded(t), heir, spec, nobody); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("resize a suspended server: %v, want ErrNotFound", err)
	}
	if there := ids(t, heir); !slices.Equal(there, []string{spec.ID}) {
		t.Errorf("there are %q, want %q", there, spec.ID)
	}
	expectSigned(t, heir, before) // no client has to trust the CA

	spec.MemoryMB = p.MemoryMB[1]
	again := launch(t, heir, spec)
	db = connect(t, spec, again)
	if n := query(t, db, "SELECT n FROM app.t"); n != 42 {
		t.Errorf("read %d, want 42", n)
	}
	if large := query(t, db, "SELECT @@innodb_buffer_pool_size"); large <= small {
		t.Errorf("launched again with %d MiB of memory: buffer pool %d; with %d MiB: %d", spec.MemoryMB, large,
			p.MemoryMB[0], small)
	}
	if err := heir.DestroyUnused(bounded(t), spec.ID); !errors.Is(err, launcher.ErrKept) {
		t.Errorf("destroy what was kept: %v, want ErrKept", err)
	}
	if err := trySuspend(bounded(t), l, spec.ID); err != nil {
		t.Fatal(err)
	}
	destroy(t, heir, spec.ID)
	if there := ids(t, l); len(there) > 0 {
		t.Errorf("there are %q", there)
	}
}

// expectSigned compares the servers whose certificate the CA of an endpoint has signed.
func expectSigned(t *testing.T, l launcher.Launcher, by launcher.Endpoint, want ...string) {
	t.Helper()
	if signed, err := l.SignedBy(bounded(t), by.CACertificate); err != nil || !slices.Equal(signed, want) {
		t.Errorf("the CA has signed the certificates of %q, want %q, %v", signed, want, err)
	}
}
