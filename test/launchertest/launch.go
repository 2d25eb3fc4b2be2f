package launchertest

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/test/testdrive"
)

// A launched server accepts logins of its administrator, who has all privileges, and of nobody else. Its certificate is
// signed by a CA, and valid for the host that applications use: Connect verifies it. The launch reports its progress.
// One that is repeated, by the same broker or by the next one, finds the server and leaves it as it is.
func testLaunch(t *testing.T, p Place) {
	l := p.Open(t)
	spec := p.spec("one")
	_, err := l.Endpoint(bounded(t), spec.ID)
	assert.ErrorIs(t, err, launcher.ErrNotFound, "endpoint before the launch")
	var reports []string
	end, err := tryLaunch(bounded(t), l, spec, func(progress string) { reports = append(reports, progress) })
	require.NoError(t, err)
	assert.False(t, len(reports) == 0 || slices.Contains(reports, ""), "reports %q", reports)
	block, _ := pem.Decode(end.CACertificate)
	require.NotNil(t, block, "the CA certificate is no PEM")
	ca, err := x509.ParseCertificate(block.Bytes)
	require.True(t, err == nil && ca.IsCA, "no certificate of a CA: %v", err)
	db := Connect(t, spec, end)
	testdrive.Exec(t, db, "CREATE DATABASE app", "CREATE TABLE app.t (n INT)", "INSERT INTO app.t VALUES (42)",
		"CREATE USER app IDENTIFIED BY 'Xx-123456789'", "GRANT ALL ON app.* TO app", "SET GLOBAL max_connections = 77",
		"DROP USER app")
	wrong := spec
	wrong.AdminPassword += "x"
	refuses(t, wrong, end)
	root := spec
	root.AdminUser, root.AdminPassword = "root", ""
	refuses(t, root, end)
	found, err := l.Endpoint(bounded(t), spec.ID)
	assert.True(t, err == nil && same(found, end), "endpoint %v, %v, want %v", found, err, end)
	assert.False(t, l.Starting(spec.ID), "it is reported as starting after it was launched")
	guest := Visit(t, spec, end)
	for _, by := range []launcher.Launcher{l, p.Open(t)} {
		again := launch(t, by, spec)
		assert.True(t, same(again, end), "launched again at %v, want %v", again, end)
	}
	assert.NoError(t, guest.PingContext(bounded(t)), "it was restarted by a repeated launch")
	assert.EqualValues(t, 42, testdrive.Read[int64](t, db, "SELECT n FROM app.t"))
}

// same reports whether two endpoints have the same address.
func same(a, b launcher.Endpoint) bool { return a.Host == b.Host && a.Port == b.Port }

// Two brokers that launch the same server at the same time create one server.
func testLaunchByTwo(t *testing.T, p Place) {
	spec := p.spec("one")
	var launching sync.WaitGroup
	var ends [2]launcher.Endpoint
	for n := range ends {
		l := p.Open(t)
		launching.Go(func() {
			end, err := tryLaunch(bounded(t), l, spec, nobody)
			assert.NoError(t, err, "launch")
			ends[n] = end
		})
	}
	launching.Wait()
	assert.True(t, same(ends[0], ends[1]), "launched at %v and at %v", ends[0], ends[1])
	lets(t, spec, ends[1])
}

// A broker may die during a launch. The next broker finishes the launch from any intermediate state, or removes
// everything.
func testCutOff(t *testing.T, p Place) {
	for report := 1; ; report++ {
		spec := p.spec(fmt.Sprint("cut", report))
		ctx, cancel := context.WithCancel(bounded(t))
		reported := 0
		_, err := tryLaunch(ctx, p.Open(t), spec, func(string) {
			if reported++; reported == report {
				cancel()
			}
		})
		cancel()
		if reported < report { // there are no more reports
			assert.NoError(t, err, "launch that was not cut off")
			break
		}
		heir := p.Open(t)
		there := ids(t, heir)
		assert.False(t, err != nil && len(there) > 0 && !slices.Equal(there, []string{spec.ID}),
			"cut off at report %d: there are %q", report, there)
		lets(t, spec, launch(t, heir, spec))
		destroy(t, heir, spec.ID)
		assert.Empty(t, ids(t, heir), "cut off at report %d, launched and destroyed", report)
	}
	spec, l := p.spec("unwanted"), p.Open(t)
	ctx, cancel := context.WithCancel(bounded(t))
	_, _ = tryLaunch(ctx, l, spec, func(string) { cancel() })
	cancel()
	destroy(t, p.Open(t), spec.ID)
	assert.NotContains(t, ids(t, l), spec.ID, "cut off, then destroyed")
}

// A broker that has lost the work to another one must not create the server again: the other may have destroyed it.
func testLostWork(t *testing.T, p Place) {
	l := p.Open(t)
	ctx, cancel := context.WithCancel(bounded(t))
	cancel()
	_, err := tryLaunch(ctx, l, p.spec("late"), nobody)
	assert.ErrorIs(t, err, context.Canceled, "launch")
	assert.Empty(t, ids(t, l))
}

// A caller that is paused during a launch overlaps with the next one, which has taken over its work. They finish in any
// order. There is one server, and the settings of the later launch win.
func testPausedCaller(t *testing.T, p Place) {
	spec := p.spec("one")
	paused, resume := make(chan bool), make(chan bool)
	var pause sync.Once
	var launching sync.WaitGroup
	old := p.Open(t)
	launching.Go(func() { // it may fail: nobody waits for it any longer
		_, _ = tryLaunch(bounded(t), old, spec, func(string) {
			pause.Do(func() {
				close(paused)
				<-resume
			})
		})
	})
	<-paused
	heir := p.Open(t)
	var end launcher.Endpoint
	var failed error
	launching.Go(func() { end, failed = tryLaunch(bounded(t), heir, spec, nobody) })
	close(resume)
	launching.Wait()
	require.NoError(t, failed, "launch beside a paused one")
	lets(t, spec, end)
	assert.Equal(t, []string{spec.ID}, ids(t, heir))
	destroy(t, heir, spec.ID)
	assert.Empty(t, ids(t, heir), "destroyed")
}

// A launch without room fails with ErrNoRoom, and what it created can be removed. Existing servers keep running.
func testNoRoom(t *testing.T, p Place) {
	l := p.Open(t)
	there := p.spec("there")
	end := launch(t, l, there)
	p.Fill(t)
	spec := p.spec("more")
	_, err := tryLaunch(bounded(t), l, spec, nobody)
	assert.ErrorIs(t, err, launcher.ErrNoRoom, "launch")
	givesUp(t, err)
	destroy(t, l, spec.ID)
	assert.Equal(t, []string{there.ID}, ids(t, l))
	lets(t, there, end)
}

// givesUp fails the test unless err says to give up and has a sentence for users.
func givesUp(t *testing.T, err error) {
	e, ok := errors.AsType[*launcher.Error](err)
	assert.True(t, ok && e.Action == launcher.GiveUp && strings.HasSuffix(e.Sentence, "."),
		"users are told nothing of %v", err)
}

// A launcher refuses a flavour or version that it does not have.
func testUnknownVersion(t *testing.T, p Place) {
	l := p.Open(t)
	odd, old := p.spec("odd"), p.spec("old")
	odd.Flavour = "klingon"
	old.Version = "3.23"
	for _, spec := range []launcher.Spec{odd, old} {
		_, err := tryLaunch(bounded(t), l, spec, nobody)
		givesUp(t, err)
		destroy(t, l, spec.ID)
	}
	assert.Empty(t, ids(t, l))
}
