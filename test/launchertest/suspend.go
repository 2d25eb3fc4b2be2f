package launchertest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/test/testdrive"
)

// trySuspend suspends a server, however often that takes.
func trySuspend(ctx context.Context, l launcher.Launcher, id string) error {
	_, _, err := Finish(ctx, func(ctx context.Context) (launcher.Endpoint, error) {
		return launcher.Endpoint{}, l.Suspend(ctx, id)
	})
	return err
}

// A suspended server does not run, is listed, and keeps its data, until it is launched again, with other limits. It may
// be destroyed instead.
func testSuspend(t *testing.T, p Place) {
	l := p.Open(t)
	assert.ErrorIs(t, trySuspend(bounded(t), l, "never"), launcher.ErrNotFound, "suspend what is not there")
	spec := p.spec("one")
	before := launch(t, l, spec)
	db := Connect(t, spec, before)
	testdrive.Exec(t, db, "CREATE DATABASE app", "CREATE TABLE app.t (n INT)", "INSERT INTO app.t VALUES (42)")
	small := testdrive.Read[int64](t, db, "SELECT @@innodb_buffer_pool_size")
	require.NoError(t, l.Keep(bounded(t), spec.ID))
	expectSigned(t, l, before, spec.ID)
	heir := p.Open(t)
	for _, by := range []launcher.Launcher{l, heir} {
		require.NoError(t, trySuspend(bounded(t), by, spec.ID))
	}
	assert.Error(t, Connect(t, spec, before).PingContext(bounded(t)), "suspended, it lets its administrator in")
	_, err := heir.Endpoint(bounded(t), spec.ID)
	assert.ErrorIs(t, err, launcher.ErrNotFound, "the endpoint of a suspended server")
	_, err = tryResize(bounded(t), heir, spec, nobody)
	assert.ErrorIs(t, err, launcher.ErrNotFound, "resize a suspended server")
	assert.Equal(t, []string{spec.ID}, ids(t, heir))
	expectSigned(t, heir, before) // no client has to trust the CA

	spec.MemoryMB = p.MemoryMB[1]
	again := launch(t, heir, spec)
	db = Connect(t, spec, again)
	assert.EqualValues(t, 42, testdrive.Read[int64](t, db, "SELECT n FROM app.t"))
	assert.Greater(t, testdrive.Read[int64](t, db, "SELECT @@innodb_buffer_pool_size"), small)
	assert.ErrorIs(t, heir.DestroyUnused(bounded(t), spec.ID), launcher.ErrKept, "destroy what was kept")
	require.NoError(t, trySuspend(bounded(t), l, spec.ID))
	destroy(t, heir, spec.ID)
	assert.Empty(t, ids(t, l))
}

// expectSigned compares the servers whose certificate the CA of an endpoint has signed.
func expectSigned(t *testing.T, l launcher.Launcher, by launcher.Endpoint, want ...string) {
	signed, err := l.SignedBy(bounded(t), by.CACertificate)
	assert.NoError(t, err)
	assert.Equal(t, want, signed, "the CA has signed others")
}
