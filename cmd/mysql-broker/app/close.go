package app

import (
	"context"
	"sync"
	"time"
)

// What the end takes at most. Cloud Foundry kills 10 seconds after SIGTERM.
const (
	drainTime = 7 * time.Second                   // for requests under way
	closeTime = drainTime + 1500*time.Millisecond // for those, and all else that is under way
	flushTime = time.Second                       // then, for traces to be sent
)

// Close lets requests under way finish, hands tasks over to other brokers and disconnects. Dedicated servers go on
// running. What cannot be ended in time, because PostgreSQL does not answer for example, is left to end with the
// process, which loses nothing: leases run out by themselves.
func (a *App) Close() {
	late := time.After(closeTime)
	a.forgetting()
	a.watching()
	if a.provisioner != nil {
		a.provisioner.HandOver()
	}
	if a.dashboard != nil {
		a.dashboard.Close()
	}
	var background sync.WaitGroup
	if a.examiner != nil {
		background.Go(a.examiner.close)
	}
	if a.quotas != nil {
		background.Go(a.quotas.Close)
	}
	if a.marks != nil {
		background.Go(a.marks.Close)
	}
	a.drain()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		background.Wait()
		a.disconnect()
	}()
	select {
	case <-closed:
	case <-late:
		a.log.Warn("not everything could be ended in time; what is left ends with the process")
	}
	a.flushTraces()
}

// drain lets requests finish and takes no more.
func (a *App) drain() {
	if a.server == nil {
		if a.listener != nil {
			a.listener.Close()
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if err := a.server.Shutdown(ctx); err != nil {
		a.log.Warn("requests were still under way after the drain time", "error", err)
		a.server.Close()
	}
}

// disconnect ends what works for requests, and then what they work with.
func (a *App) disconnect() {
	if a.provisioner != nil {
		a.provisioner.Stop()
	}
	if a.launcher != nil {
		a.launcher.Close()
	}
	if a.shared != nil {
		if err := a.shared.Close(); err != nil {
			a.log.Warn("could not close the connections to the shared servers", "error", err)
		}
	}
	if a.store != nil {
		a.store.Close()
	}
	if a.profiles != nil {
		_ = a.profiles.Close() // breaks off those under way
	}
}

func (a *App) flushTraces() {
	if a.traces == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := a.traces.Shutdown(ctx); err != nil {
		a.log.Warn("the last traces could not be sent", "error", err)
	}
}
