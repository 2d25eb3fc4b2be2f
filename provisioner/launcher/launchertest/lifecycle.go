package launchertest

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
)

// A resized server has new limits, and binary logs if it is to keep them; its data, endpoint and certificate stay the
// same. A server that already has these limits is left alone.
func testResize(t *testing.T, p Place) {
	l := p.Open(t)
	spec := p.spec("one")
	if _, err := tryResize(bounded(t), l, spec, nobody); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("resize before the launch: %v, want ErrNotFound", err)
	}
	before := launch(t, l, spec)
	db := connect(t, spec, before)
	execute(t, db, "CREATE DATABASE app", "CREATE TABLE app.t (n INT)", "INSERT INTO app.t VALUES (42)")
	small := query(t, db, "SELECT @@innodb_buffer_pool_size")

	spec.MemoryMB = p.MemoryMB[1]
	ctx, cancel := context.WithCancel(bounded(t)) // as if the broker died
	_, _ = tryResize(ctx, l, spec, func(string) { cancel() })
	cancel()
	heir := p.Open(t)
	after, err := tryResize(bounded(t), heir, spec, nobody)
	if err != nil {
		t.Fatal(err)
	}
	if !same(after, before) || string(after.CACertificate) != string(before.CACertificate) {
		t.Errorf("resized: at %v, want %v with the same CA", after, before)
	}
	db = connect(t, spec, after)
	if large := query(t, db, "SELECT @@innodb_buffer_pool_size"); large <= small {
		t.Errorf("%d MiB of memory: buffer pool %d; %d MiB: %d", p.MemoryMB[0], small, p.MemoryMB[1], large)
	}
	if n := query(t, db, "SELECT n FROM app.t"); n != 42 {
		t.Errorf("read %d, want 42", n)
	}
	guest := visit(t, db)
	if _, err := tryResize(bounded(t), heir, spec, nobody); err != nil {
		t.Errorf("resize to the same size: %v", err)
	}
	if !guest.stays(t) {
		t.Error("it was restarted by a resize to the size that it has")
	}
	spec.BinaryLogs = true
	after, err = tryResize(bounded(t), heir, spec, nobody)
	if p.NoBinaryLogs {
		givesUp(t, err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	db = connect(t, spec, after)
	if query(t, db, "SELECT @@GLOBAL.log_bin") != 1 || query(t, db, "SELECT n FROM app.t") != 42 {
		t.Error("resized to a server with binary logs, it keeps none")
	}
}

// A destroyed server is gone, and may be destroyed again. So may a server that never existed.
func testDestroy(t *testing.T, p Place) {
	l := p.Open(t)
	destroy(t, l, "never")
	spec := p.spec("one")
	end := launch(t, l, spec)
	if err := l.Keep(bounded(t), spec.ID); err != nil {
		t.Errorf("keep: %v", err)
	}
	destroy(t, l, spec.ID)
	destroy(t, p.Open(t), spec.ID)
	if _, err := l.Endpoint(bounded(t), spec.ID); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("endpoint: %v, want ErrNotFound", err)
	}
	if err := connect(t, spec, end).PingContext(bounded(t)); err == nil {
		t.Error("its administrator can still log in")
	}
	if _, err := tryResize(bounded(t), l, spec, nobody); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("resize: %v, want ErrNotFound", err)
	}
	if there := ids(t, l); len(there) > 0 {
		t.Errorf("there are %q", there)
	}
}

// A server that was reported ready is kept, whatever the broker's records say. Any other may be destroyed.
func testKeep(t *testing.T, p Place) {
	l := p.Open(t)
	if err := l.Keep(bounded(t), "never"); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("keep what is not there: %v, want ErrNotFound", err)
	}
	if err := l.DestroyUnused(bounded(t), "never"); err != nil {
		t.Errorf("destroy what is not there: %v", err)
	}
	kept, unused := p.spec("kept"), p.spec("unused")
	end := launch(t, l, kept)
	launch(t, l, unused)
	for range 2 {
		if err := l.Keep(bounded(t), kept.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Record(bounded(t), "never", "text"); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("record what is not there: %v, want ErrNotFound", err)
	}
	long := strings.Repeat("recorded", 25<<10)
	for _, text := range []string{"one", long, "", long} {
		want := map[string]string{kept.ID: text, unused.ID: "short"}
		for id, text := range want {
			if err := l.Record(bounded(t), id, text); err != nil {
				t.Fatal(err)
			}
		}
		maps.DeleteFunc(want, func(_, text string) bool { return text == "" })
		p.expectRecords(t, want)
	}
	heir := p.Open(t)
	if err := heir.DestroyUnused(bounded(t), kept.ID); !errors.Is(err, launcher.ErrKept) {
		t.Errorf("destroy what is kept: %v, want ErrKept", err)
	}
	if err := heir.DestroyUnused(bounded(t), unused.ID); err != nil {
		t.Errorf("destroy what is not in use: %v", err)
	}
	if there := ids(t, heir); !slices.Equal(there, []string{kept.ID}) {
		t.Errorf("there are %q, want %q", there, kept.ID)
	}
	p.expectRecords(t, map[string]string{kept.ID: long})
	lets(t, kept, end)
}

// Every server is listed by every broker, even if its launch was cut off.
func testList(t *testing.T, p Place) {
	l := p.Open(t)
	if there := ids(t, l); len(there) > 0 {
		t.Fatalf("there are %q at the beginning", there)
	}
	var want []string
	for n := range 3 {
		spec := p.spec(fmt.Sprint("n", n))
		launch(t, l, spec)
		want = append(want, spec.ID)
	}
	there := ids(t, p.Open(t))
	slices.Sort(there)
	if !slices.Equal(there, want) {
		t.Errorf("there are %q, want %q", there, want)
	}
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
	if !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("change it of what is not there: %v, want ErrNotFound", err)
	}
	end := launch(t, l, first)
	fails := func(context.Context) error { return context.DeadlineExceeded }
	err = l.ChangeAdminPassword(bounded(t), first.ID, second.AdminPassword, fails)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a change that fails: %v", err)
	}
	lets(t, first, launch(t, p.Open(t), first))

	change := func(context.Context) error {
		execute(t, connect(t, first, end), "ALTER USER "+first.AdminUser+" IDENTIFIED BY '"+second.AdminPassword+"'")
		return nil
	}
	if err := l.ChangeAdminPassword(bounded(t), first.ID, second.AdminPassword, change); err != nil {
		t.Fatal(err)
	}
	heir := p.Open(t) // as if the first one had died before it recorded that
	if err := heir.ChangeAdminPassword(bounded(t), first.ID, second.AdminPassword, nothing); err != nil {
		t.Errorf("change it again: %v", err)
	}
	first.MemoryMB, second.MemoryMB = p.MemoryMB[1], p.MemoryMB[1]
	if _, err := tryResize(bounded(t), l, first, nobody); !mysqladmin.AccessDenied(err) {
		t.Errorf("resize with the old password: %v, want the error of MySQL", err)
	}
	resized, err := tryResize(bounded(t), l, second, nobody)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []launcher.Endpoint{end, resized, launch(t, heir, second)} {
		lets(t, second, e)
		refuses(t, first, e)
	}
}

// The certificate, if there is one, is signed by a CA and valid for the host that applications use: connect verifies
// it.
func testCertificate(t *testing.T, p Place) {
	l := p.Open(t)
	spec := p.spec("one")
	end := launch(t, l, spec)
	if end.CACertificate == nil {
		t.Skip("the launcher's servers have no TLS")
	}
	block, _ := pem.Decode(end.CACertificate)
	if block == nil {
		t.Fatal("the CA certificate is no PEM")
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil || !ca.IsCA {
		t.Fatalf("no certificate of a CA: %v", err)
	}
	lets(t, spec, end)
}

// Only the broker can read the admin password.
func testSecrets(t *testing.T, p Place) {
	if p.Readable == nil {
		t.Skip("the launcher starts no servers")
	}
	l := p.Open(t)
	spec := p.spec("one")
	end := launch(t, l, spec)
	lets(t, spec, end)
	wrong := spec
	wrong.AdminPassword = "wrong"
	refuses(t, wrong, end)
	spec.MemoryMB = p.MemoryMB[1]
	if _, err := tryResize(bounded(t), l, spec, nobody); err != nil {
		t.Fatal(err)
	}
	readable := p.Readable(t)
	if !strings.Contains(readable, spec.ID) {
		t.Fatalf("nothing readable is about the server: the test sees nothing")
	}
	if strings.Contains(readable, spec.AdminPassword) {
		t.Error("the admin password can be read by others")
	}
}

// Every broker reads a note until it is replaced.
func testNotes(t *testing.T, p Place) {
	l := p.Open(t)
	if note, err := l.ReadNote(bounded(t), "mark"); note != nil || err != nil {
		t.Errorf("before the first note: %q, %v", note, err)
	}
	for _, content := range []string{"one", strings.Repeat("long", 128<<10), "", "two"} {
		if err := l.WriteNote(bounded(t), "mark", []byte(content)); err != nil {
			t.Fatal(err)
		}
		if note, err := p.Open(t).ReadNote(bounded(t), "mark"); string(note) != content || note == nil || err != nil {
			t.Errorf("wrote %d bytes, read %d, %v", len(content), len(note), err)
		}
	}
	if err := l.WriteNote(bounded(t), "other-1", []byte("three")); err != nil {
		t.Fatal(err)
	}
	if note, err := l.ReadNote(bounded(t), "mark"); string(note) != "two" || err != nil {
		t.Errorf("read %q, %v", note, err)
	}
	if there := ids(t, l); len(there) > 0 {
		t.Errorf("there are %q: notes are no servers", there)
	}
}

// expectRecords expects that the records beside servers are those, as every broker reads them.
func (p Place) expectRecords(t *testing.T, want map[string]string) {
	t.Helper()
	if there, err := p.Open(t).Records(bounded(t)); err != nil || !maps.Equal(there, want) {
		t.Errorf("there are the records of %v, %v; want those of %v", slices.Collect(maps.Keys(there)), err,
			slices.Collect(maps.Keys(want)))
	}
}
