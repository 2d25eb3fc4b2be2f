// Package launchertest is the suite that every launcher passes. A launcher's own tests call Run and test what is
// specific to that launcher.
package launchertest

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/test/limits"
)

// Place is where the launcher under test runs servers. Each test of the suite has its own place. When the test has
// ended, Run's caller removes the place and all servers that are left.
type Place struct {
	// Open returns a launcher for the place, as a starting broker opens it. Several may be open at once, for other
	// replicas or for the same one after a crash, which closes nothing.
	Open func(t *testing.T) launcher.Launcher

	// Supervise opens a launcher with these options, which looks at its CA every few seconds. It is nil if servers have no
	// certificates.
	Supervise func(t *testing.T, options launcher.Options) launcher.Launcher

	// Fill uses up all room for new servers, so that a launch returns ErrNoRoom.
	Fill func(t *testing.T)

	// Readable returns what others than the broker can read about the servers: logs, and the arguments and environment of
	// processes. The suite expects each server's id in it, as in a path. It is nil if no servers of their own are started.
	Readable func(t *testing.T) string

	// MemoryMB are two sizes of servers, the second one with a larger InnoDB buffer pool.
	MemoryMB [2]int

	// NoBinaryLogs says that the launcher gives up if a server is to keep binary logs.
	NoBinaryLogs bool
}

// Run runs the suite. newPlace makes a place for one test.
func Run(t *testing.T, newPlace func(t *testing.T) Place) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Place)
	}{
		{"launch", testLaunch},
		{"launch by two at once", testLaunchByTwo},
		{"launch cut off at every report", testCutOff},
		{"launch whose caller has lost the work", testLostWork},
		{"paused caller overlaps", testPausedCaller},
		{"no room", testNoRoom},
		{"unknown flavour or version", testUnknownVersion},
		{"resize", testResize},
		{"suspend", testSuspend},
		{"keep and destroy", testKeep},
		{"admin password", testAdminPassword},
		{"renewal", testRenewal},
		{"notes", testNotes},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, newPlace(t))
		})
	}
}

// spec describes a small server.
func (p Place) spec(id string) launcher.Spec {
	return launcher.Spec{ID: id, MemoryMB: p.MemoryMB[0], StorageMB: 1024, AdminUser: "admin", AdminPassword: rand.Text()}
}

// nobody ignores reports.
func nobody(string) {}

// bounded is the context of a test's calls.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limits.Stuck)
	t.Cleanup(cancel)
	return ctx
}

// Finish repeats a call until it no longer returns NotYet, and returns the sentences for users.
func Finish(ctx context.Context,
	call func(context.Context) (launcher.Endpoint, error)) (end launcher.Endpoint, sentences []string, err error) {
	for {
		end, err = call(ctx)
		notYet, ok := errors.AsType[*launcher.Error](err)
		if !ok || notYet.Action != launcher.Wait {
			return end, sentences, err
		}
		sentences = append(sentences, notYet.Sentence)
		select {
		case <-ctx.Done():
			return end, sentences, errors.Join(err, context.Cause(ctx))
		case <-time.After(notYet.After):
		}
	}
}

func tryLaunch(ctx context.Context, l launcher.Launcher, spec launcher.Spec,
	report func(string)) (end launcher.Endpoint, err error) {
	end, _, err = Finish(ctx, func(ctx context.Context) (launcher.Endpoint, error) { return l.Launch(ctx, spec, report) })
	return end, err
}

func tryResize(ctx context.Context, l launcher.Launcher, spec launcher.Spec,
	report func(string)) (end launcher.Endpoint, err error) {
	end, _, err = Finish(ctx, func(ctx context.Context) (launcher.Endpoint, error) { return l.Resize(ctx, spec, report) })
	return end, err
}

// launch launches a server that is expected to come up.
func launch(t *testing.T, l launcher.Launcher, spec launcher.Spec) launcher.Endpoint {
	end, err := tryLaunch(bounded(t), l, spec, nobody)
	require.NoError(t, err, "launch %s", spec.ID)
	return end
}

// destroy destroys a server.
func destroy(t *testing.T, l launcher.Launcher, id string) {
	require.NoError(t, l.Destroy(bounded(t), id), "destroy %s", id)
}

// ids lists the servers that are there.
func ids(t *testing.T, l launcher.Launcher) []string {
	all, err := l.List(bounded(t))
	require.NoError(t, err, "list")
	return all
}
