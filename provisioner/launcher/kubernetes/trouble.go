package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
)

const (
	// killShown is how long a server counts as in trouble after it has ended for lack of memory or disk.
	killShown = time.Hour

	watchTime = "300" // seconds, after which the API server ends a watch and the next one begins

	// blindPauses is for how many times Config.WatchPause (together 5 minutes) a failing watch may report its last state.
	blindPauses = 30
)

// watch has the troubles of all servers, from the watch of their pods.
type watch struct {
	secrets
	log   *slog.Logger
	pause time.Duration // Config.WatchPause

	begun chan struct{} // closed when the first list has succeeded or failed
	once  sync.Once     // closes it

	mu    sync.Mutex
	all   *podStates // nil until a list has succeeded
	err   error      // why the watch fails, nil while it works
	since time.Time  // when it began to fail
}

// podStates is what is known of the servers' pods.
type podStates struct {
	troubled map[string]troubled // servers in trouble, by their ids
	there    map[string]bool     // ids of servers that have a pod
}

// troubled is a server in trouble. Its times are of the API server's clock.
type troubled struct {
	trouble launcher.Trouble
	from    time.Time // zero if it has begun; later than now if it begins then, unless the pod changes
	until   time.Time // zero if only a change of the pod ends it
	logged  bool      // that it has begun
}

// holds reports whether the trouble has begun and is not over.
func (t troubled) holds(now time.Time) bool {
	return !now.Before(t.from) && (t.until.IsZero() || now.Before(t.until))
}

// after returns the trouble of a server that had another one before. If it is the same, it goes on: no pod says since
// when there is none.
func (t troubled) after(before troubled) troubled {
	if t.trouble != before.trouble {
		return t
	}
	t.logged = before.logged
	if t.trouble == launcher.NoPod {
		t.from = before.from
	}
	return t
}

// readyLate is how long a mysqld may run without accepting connections before that counts as trouble. A recovery from a
// crash takes seconds to minutes.
const readyLate = 10 * time.Minute

// podPauses is for how many times Config.WatchPause (together 30 seconds) a server may have no pod: pods are replaced.
const podPauses = 3

// stopLate is how long after its grace period a pod may still be there. A kubelet that responds removes it.
const stopLate = time.Minute

// Troubles implements launcher.Observer.
func (l *Launcher) Troubles(ctx context.Context) (map[string]launcher.Trouble, error) {
	if l.cfg.Supervise {
		return l.watch.seen(ctx)
	}
	all, _, err := l.watch.listPods(ctx)
	if err != nil {
		return nil, err
	}
	wanted, err := l.watch.podsWanted(ctx)
	if err != nil {
		return nil, err
	}
	all.compare(wanted, time.Time{}, nil)
	return all.troubles(l.secrets.api.Now()), nil
}

// seen returns what the watch has seen. It makes no request: Prometheus may ask as often as it likes.
func (w *watch) seen(ctx context.Context) (map[string]launcher.Trouble, error) {
	select {
	case <-w.begun:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the first list of the servers' pods: %w", context.Cause(ctx))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil && (w.all == nil || time.Since(w.since) > blindPauses*w.pause) {
		return nil, fmt.Errorf("the servers' pods have not been seen for %v: %w",
			time.Since(w.since).Round(time.Second), w.err)
	}
	return w.all.troubles(w.api.Now()), nil
}

// troubles leaves out troubles that are over or have not begun.
func (s *podStates) troubles(now time.Time) map[string]launcher.Trouble {
	found := map[string]launcher.Trouble{}
	for id, t := range s.troubled {
		if t.holds(now) {
			found[id] = t.trouble
		}
	}
	return found
}

// listPods lists the servers' pods, and returns the version of the list.
func (w *watch) listPods(ctx context.Context) (all *podStates, version string, err error) {
	all = &podStates{map[string]troubled{}, map[string]bool{}}
	version, err = api.List(ctx, w.api, api.Pods, serversSelector, api.FullPage, func(p api.Pod) error {
		all.note(p, true, w.api.Now())
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("list the pods of servers: %w", err)
	}
	return all, version, nil
}

// podsWanted returns the ids of the servers that are to have a pod, as far as they were ready once.
func (w *watch) podsWanted(ctx context.Context) (ids []string, err error) {
	err = w.each(ctx, func(id string, m api.Metadata) {
		s := server{secret: api.Secret{Metadata: m}}
		if m.DeletionTimestamp.IsZero() && s.readState() == nil &&
			(s.state.Phase == phaseReady || s.state.Phase == phaseUpgrading) {
			ids = append(ids, id)
		}
	})
	return ids, err
}

// compare notes which of the servers that are to run have no pod, which counts from then on, and which troubles lasted
// before.
func (s *podStates) compare(wanted []string, from time.Time, before map[string]troubled) {
	maps.DeleteFunc(s.troubled, func(_ string, t troubled) bool { return t.trouble == launcher.NoPod })
	for _, id := range wanted {
		if !s.there[id] {
			s.troubled[id] = troubled{trouble: launcher.NoPod, from: from}
		}
	}
	for id, t := range s.troubled {
		s.troubled[id] = t.after(before[id])
	}
}

// run watches the servers' pods until the watch fails, and remembers since when it fails.
func (w *watch) run(ctx context.Context) error {
	err := w.pods(ctx)
	if err != nil {
		w.mu.Lock()
		if w.err == nil {
			w.since = time.Now()
		}
		w.err = err
		w.mu.Unlock()
		w.once.Do(func() { close(w.begun) })
	}
	return err
}

// pods watches the servers' pods until the watch fails.
func (w *watch) pods(ctx context.Context) error {
	all, version, err := w.listPods(ctx)
	if err != nil {
		return err
	}
	if err := w.update(ctx, all); err != nil {
		return err
	}
	w.once.Do(func() { close(w.begun) })
	for ctx.Err() == nil {
		if version, err = w.from(ctx, version); err != nil {
			return fmt.Errorf("watch the pods of servers: %w", err)
		}
		if err := w.update(ctx, w.all); err != nil {
			return err
		}
	}
	return nil
}

// update records the states of all pods, and which servers have none.
func (w *watch) update(ctx context.Context, all *podStates) error {
	wanted, err := w.podsWanted(ctx)
	if err != nil {
		return err
	}
	w.change(func() {
		var before map[string]troubled
		if w.all != nil {
			before = maps.Clone(w.all.troubled)
		}
		all.compare(wanted, w.api.Now().Add(podPauses*w.pause), before)
		w.all, w.err = all, nil
	})
	return nil
}

// change changes what is known, and logs the troubles that have begun since.
func (w *watch) change(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
	for id, t := range w.all.troubled {
		if t.holds(w.api.Now()) && !t.logged {
			w.log.Warn("a server is in trouble", "server", id, "reason", string(t.trouble))
			t.logged = true
			w.all.troubled[id] = t
		}
	}
}

// from watches from a version of the list until the API server ends the watch, and returns the version after that.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
func (w *watch) from(ctx context.Context, version string) (string, error) {
	query := url.Values{"watch": {"1"}, "labelSelector": {serversSelector}, "resourceVersion": {version},
		"allowWatchBookmarks": {"true"}, "timeoutSeconds": {watchTime}}
	response, err := w.api.Send(ctx, api.Call{Method: http.MethodGet,
		Path: w.api.Path(api.Pods) + "?" + query.Encode()}, nil)
	if err != nil {
		return version, err
	}
	defer response.Body.Close()
	for events := json.NewDecoder(response.Body); events.More(); {
		var event struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		var p api.Pod
		err := events.Decode(&event)
		switch {
		case err != nil:
		case event.Type == "ERROR": // the version is too old, for example
			var status api.StatusError
			err = cmp.Or(json.Unmarshal(event.Object, &status),
				fmt.Errorf("the API server ended the watch: %s", status.Message))
		default:
			err = json.Unmarshal(event.Object, &p)
		}
		if err != nil {
			return version, err
		}
		if event.Type == "DELETED" {
			p = api.Pod{Metadata: p.Metadata}
			p.Metadata.DeletionTimestamp = time.Time{}
		}
		version = p.Metadata.ResourceVersion
		w.change(func() {
			if event.Type != "BOOKMARK" {
				w.all.note(p, event.Type != "DELETED", w.api.Now())
			}
		})
	}
	return version, nil
}

// note records the state of a server's pod, unless it is not there any more. If somebody has scaled a StatefulSet, its
// other pods do not count.
func (s *podStates) note(p api.Pod, there bool, at time.Time) {
	now, id := troubleOf(p, at), p.Metadata.Labels[serverLabel]
	if name, err := objectName(id); err != nil || p.Metadata.Name != name+"-0" {
		return
	}
	if now.trouble == "" {
		delete(s.troubled, id)
	} else {
		s.troubled[id] = now.after(s.troubled[id])
	}
	if s.there[id] = there; !there {
		delete(s.there, id)
	}
}

// fullVolume matches the last lines of a mysqld that has ended because its volume is full: ENOSPC is error 28.
var fullVolume = regexp.MustCompile(`(?i)no space left on device|out of disk space|disk is full|` +
	`(errno|errcode|error)( number)?:? "?28\b`)

// troubleOf returns what is wrong with a pod at a time.
func troubleOf(p api.Pod, now time.Time) troubled {
	disrupted := p.Condition("DisruptionTarget")
	ready, containers := p.Condition("Ready"), p.Condition("ContainersReady")
	switch {
	case disrupted.Reason == "DeletionByTaintManager",
		// The node controller sets Ready to false; a kubelet would have changed ContainersReady as well.
		ready.Status == "False" && containers.Status == "True":
		return troubled{trouble: launcher.NodeLost}
	case !p.Metadata.DeletionTimestamp.IsZero(): // which is the end of the grace period
		return troubled{trouble: launcher.NodeLost, from: p.Metadata.DeletionTimestamp.Add(stopLate)}
	case p.Status.Reason == "Evicted", disrupted.Reason == "TerminationByKubelet":
		return troubled{trouble: launcher.Evicted}
	case p.Condition("PodScheduled").Status == "False":
		return troubled{trouble: launcher.NoNode}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		for _, ended := range []api.ContainerState{c.State, c.LastState} {
			t := ended.Terminated
			if t == nil || now.Sub(t.FinishedAt) > killShown {
				continue
			}
			if t.Reason == "OOMKilled" {
				return troubled{trouble: launcher.OutOfMemory, until: t.FinishedAt.Add(killShown)}
			}
			if fullVolume.MatchString(t.Message) {
				return troubled{trouble: launcher.VolumeFull, until: t.FinishedAt.Add(killShown)}
			}
		}
		if c.State.Running != nil && !c.Ready && c.Name == containerName && !ready.LastTransitionTime.IsZero() {
			return troubled{trouble: launcher.NotReady, from: ready.LastTransitionTime.Add(readyLate)}
		}
		switch {
		case c.Fetching():
			return troubled{trouble: launcher.NoImage}
		case c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff":
			return troubled{trouble: launcher.Crashing}
		}
	}
	return troubled{}
}

// lost reports whether the node of a pod is lost.
func (c secrets) lost(p api.Pod) bool {
	now := c.api.Now()
	t := troubleOf(p, now)
	return t.trouble == launcher.NodeLost && t.holds(now)
}

// noServers is the sentence for users if an operator has to change something first.
const noServers = "The servers of this plan cannot be run here just now."

// explain adds to an error what the caller should do. All refusals have the code 403; only their text distinguishes a
// full quota from a missing right.
func explain(err error) error {
	if _, known := errors.AsType[*launcher.Error](err); known {
		return err
	}
	e, ok := errors.AsType[*api.StatusError](err)
	if !ok {
		return err
	}
	switch {
	case e.Code == http.StatusForbidden && saysNoRoom(e.Message):
		return launcher.NoRoom(err)
	case e.Code == http.StatusForbidden && strings.Contains(e.Message, "expansion"),
		e.Code == http.StatusForbidden && strings.Contains(e.Message, "must support resize"):
		return &launcher.Error{Action: launcher.GiveUp, Sentence: cannotGrow, Err: err}
	case e.Code == http.StatusForbidden, e.Code == http.StatusUnauthorized, e.Code == http.StatusNotFound,
		e.Code == http.StatusUnprocessableEntity, e.Code == http.StatusBadRequest:
		return &launcher.Error{Action: launcher.GiveUp, Sentence: noServers, Err: err}
	}
	return err
}

// saysNoRoom recognizes the errors of quotas, limit ranges and the check of a pod's resize.
func saysNoRoom(message string) bool {
	return strings.Contains(message, "exceeded quota") || strings.Contains(message, "enough allocatable resources")
}
