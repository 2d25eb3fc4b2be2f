package launchertest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/test/testdrive"
)

// A resized server has new limits, and binary logs if it is to keep them; its data, endpoint and certificate stay the
// same. Only the broker can read its admin password. A server that already has these limits is left alone.
func testResize(t *testing.T, p Place) {
	l := p.Open(t)
	spec := p.spec("one")
	_, err := tryResize(bounded(t), l, spec, nobody)
	assert.ErrorIs(t, err, launcher.ErrNotFound, "resize before the launch")
	before := launch(t, l, spec)
	db := Connect(t, spec, before)
	testdrive.Exec(t, db, "CREATE DATABASE app", "CREATE TABLE app.t (n INT)", "INSERT INTO app.t VALUES (42)")
	small := testdrive.Read[int64](t, db, "SELECT @@innodb_buffer_pool_size")

	spec.MemoryMB = p.MemoryMB[1]
	ctx, cancel := context.WithCancel(bounded(t)) // as if the broker died
	_, _ = tryResize(ctx, l, spec, func(string) { cancel() })
	cancel()
	heir := p.Open(t)
	after, err := tryResize(bounded(t), heir, spec, nobody)
	require.NoError(t, err)
	assert.True(t, same(after, before) && string(after.CACertificate) == string(before.CACertificate),
		"resized: at %v, want %v with the same CA", after, before)
	db = Connect(t, spec, after)
	assert.Greater(t, testdrive.Read[int64](t, db, "SELECT @@innodb_buffer_pool_size"), small)
	assert.EqualValues(t, 42, testdrive.Read[int64](t, db, "SELECT n FROM app.t"))
	guest := Visit(t, spec, after)
	if p.Readable != nil {
		readable := p.Readable(t)
		require.True(t, strings.Contains(readable, spec.ID), "nothing readable is about the server: the test sees nothing")
		assert.False(t, strings.Contains(readable, spec.AdminPassword), "the admin password can be read by others")
	}
	_, err = tryResize(bounded(t), heir, spec, nobody)
	assert.NoError(t, err, "resize to the same size")
	assert.NoError(t, guest.PingContext(bounded(t)), "it was restarted by a resize to the size that it has")
	spec.BinaryLogs = true
	after, err = tryResize(bounded(t), heir, spec, nobody)
	if p.NoBinaryLogs {
		givesUp(t, err)
		return
	}
	require.NoError(t, err)
	db = Connect(t, spec, after)
	assert.EqualValues(t, 1, testdrive.Read[int64](t, db, "SELECT @@GLOBAL.log_bin"), "it keeps no binary logs")
	assert.EqualValues(t, 42, testdrive.Read[int64](t, db, "SELECT n FROM app.t"))
}

// A server that was reported ready is kept, whatever the broker's records say. Any other may be destroyed. A destroyed
// server is gone, and may be destroyed again. So may a server that never existed.
func testKeep(t *testing.T, p Place) {
	l := p.Open(t)
	assert.ErrorIs(t, l.Keep(bounded(t), "never"), launcher.ErrNotFound, "keep what is not there")
	assert.NoError(t, l.DestroyUnused(bounded(t), "never"), "destroy what is not there")
	destroy(t, l, "never")
	kept, unused := p.spec("kept"), p.spec("unused")
	end := launch(t, l, kept)
	launch(t, l, unused)
	assert.ElementsMatch(t, []string{kept.ID, unused.ID}, ids(t, p.Open(t)), "every broker lists every server")
	for range 2 {
		require.NoError(t, l.Keep(bounded(t), kept.ID))
	}
	assert.ErrorIs(t, l.Record(bounded(t), "never", "text"), launcher.ErrNotFound, "record what is not there")
	long := strings.Repeat("recorded", 25<<10)
	for _, text := range []string{"one", long, "", long} {
		want := map[string]string{kept.ID: text, unused.ID: "short"}
		for id, text := range want {
			require.NoError(t, l.Record(bounded(t), id, text))
		}
		maps.DeleteFunc(want, func(_, text string) bool { return text == "" })
		p.expectRecords(t, want)
	}
	heir := p.Open(t)
	assert.ErrorIs(t, heir.DestroyUnused(bounded(t), kept.ID), launcher.ErrKept, "destroy what is kept")
	assert.NoError(t, heir.DestroyUnused(bounded(t), unused.ID), "destroy what is not in use")
	assert.Equal(t, []string{kept.ID}, ids(t, heir))
	p.expectRecords(t, map[string]string{kept.ID: long})
	lets(t, kept, end)

	destroy(t, l, kept.ID)
	destroy(t, p.Open(t), kept.ID)
	_, err := l.Endpoint(bounded(t), kept.ID)
	assert.ErrorIs(t, err, launcher.ErrNotFound, "endpoint")
	assert.Error(t, Connect(t, kept, end).PingContext(bounded(t)), "its administrator can still log in")
	_, err = tryResize(bounded(t), l, kept, nobody)
	assert.ErrorIs(t, err, launcher.ErrNotFound, "resize")
	assert.Empty(t, ids(t, l))
}

// The admin password is changed by SQL, and the launcher keeps up with it. A later launch or resize does not restore
// the old password, and a resize with it is refused. If the change fails, the old password stays in use.
func testAdminPassword(t *testing.T, p Place) {
	l := p.Open(t)
	first := p.spec("one")
	second := first
	second.AdminPassword = "another-" + first.AdminPassword
	nothing := func(context.Context) error { return nil }
	err := l.ChangeAdminPassword(bounded(t), first.ID, second.AdminPassword, nothing)
	assert.ErrorIs(t, err, launcher.ErrNotFound, "change it of what is not there")
	end := launch(t, l, first)
	fails := func(context.Context) error { return context.DeadlineExceeded }
	err = l.ChangeAdminPassword(bounded(t), first.ID, second.AdminPassword, fails)
	assert.ErrorIs(t, err, context.DeadlineExceeded, "a change that fails")
	lets(t, first, launch(t, p.Open(t), first))

	change := func(context.Context) error {
		testdrive.Exec(t, Connect(t, first, end), "ALTER USER "+first.AdminUser+" IDENTIFIED BY '"+second.AdminPassword+"'")
		return nil
	}
	require.NoError(t, l.ChangeAdminPassword(bounded(t), first.ID, second.AdminPassword, change))
	heir := p.Open(t) // as if the first one had died before it recorded that
	assert.NoError(t, heir.ChangeAdminPassword(bounded(t), first.ID, second.AdminPassword, nothing), "change it again")
	first.MemoryMB, second.MemoryMB = p.MemoryMB[1], p.MemoryMB[1]
	_, err = tryResize(bounded(t), l, first, nobody)
	assert.True(t, mysqladmin.AccessDenied(err), "resize with the old password: %v, want the error of MySQL", err)
	resized, err := tryResize(bounded(t), l, second, nobody)
	require.NoError(t, err)
	for _, e := range []launcher.Endpoint{end, resized, launch(t, heir, second)} {
		lets(t, second, e)
		refuses(t, first, e)
	}
}

// Every broker reads a note until it is replaced.
func testNotes(t *testing.T, p Place) {
	l := p.Open(t)
	note, err := l.ReadNote(bounded(t), "mark")
	assert.True(t, note == nil && err == nil, "before the first note: %q, %v", note, err)
	for _, content := range []string{"one", strings.Repeat("long", 128<<10), "", "two"} {
		require.NoError(t, l.WriteNote(bounded(t), "mark", []byte(content)))
		note, err := p.Open(t).ReadNote(bounded(t), "mark")
		assert.True(t, string(note) == content && note != nil && err == nil, "wrote %d bytes, read %d, %v", len(content), len(note), err)
	}
	require.NoError(t, l.WriteNote(bounded(t), "other-1", []byte("three")))
	note, err = l.ReadNote(bounded(t), "mark")
	assert.True(t, string(note) == "two" && err == nil, "read %q, %v", note, err)
	assert.Empty(t, ids(t, l), "notes are no servers")
}

// expectRecords expects that the records beside servers are those, as every broker reads them.
func (p Place) expectRecords(t *testing.T, want map[string]string) {
	there, err := p.Open(t).Records(bounded(t))
	assert.NoError(t, err)
	assert.True(t, maps.Equal(there, want), "there are the records of %v; want those of %v",
		slices.Collect(maps.Keys(there)), slices.Collect(maps.Keys(want)))
}
