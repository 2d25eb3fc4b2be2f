package kubernetes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
	"mysql-broker/provisioner/mysqladmin"
)

const (
	// The pause before the next look at a pod is a tenth of the pod's age, within these limits. mysqld usually starts
	// within two seconds, but needs minutes if a node must be created or an image downloaded.
	minPoll, maxPoll = 100 * time.Millisecond, 5 * time.Second

	// restartsToFail is how often a new server may end as it starts.
	restartsToFail = 3
)

// poll is NotYet with a pause for what has begun then.
func (c secrets) poll(since time.Time, sentence string) error {
	return launcher.NotYet(min(max(c.api.Since(since)/10, minPoll), maxPoll), sentence)
}

// lookAt returns nil once mysqld runs, NotYet while it starts, or else what is wrong. It always waits for a server that
// was ready once; the task's deadline ends the wait.
func (r *runner) lookAt(s *server, p api.Pod) error {
	wait := func(sentence string) error { return r.poll(p.Metadata.CreationTimestamp, sentence) }
	launching := s.state.Phase == phaseLaunching
	if sentence := r.leaving(p); sentence != "" {
		return wait(sentence)
	}
	if c := p.Condition("PodScheduled"); c.Status == "False" {
		if launching && !c.LastTransitionTime.IsZero() && r.api.Since(c.LastTransitionTime) > r.cfg.PlaceTimeout {
			return launcher.NoRoom(fmt.Errorf("server %s: no node for the pod %s in %v: %s", s.id, s.podName(),
				r.cfg.PlaceTimeout, c.Message))
		}
		return wait(unscheduled(c.Message))
	}
	if launching && r.api.Since(s.secret.Metadata.CreationTimestamp) > r.cfg.PlaceTimeout+r.cfg.LaunchTimeout {
		return &launcher.Error{Action: launcher.GiveUp, Sentence: noServers,
			Err: fmt.Errorf("server %s: the pod %s did not come up in time: %s", s.id, s.podName(), p.Waits())}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if launching && c.RestartCount >= restartsToFail && c.State.Running == nil {
			return ended(s, c)
		}
	}
	if mysqldOf(p).State.Running != nil {
		return nil
	}
	for _, c := range p.Status.InitContainerStatuses { // one that a webhook has added may run beside mysqld
		if c.State.Running != nil || c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
			return wait(notRunning(c, "Preparing the data directory"))
		}
	}
	if c := mysqldOf(p); c.Name != "" {
		return wait(notRunning(c, "Starting mysqld"))
	}
	return wait("Attaching the volume")
}

// leaving returns what to wait for if a pod is ending, or if its node is lost and nobody knows its state.
func (c secrets) leaving(p api.Pod) string {
	if c.lost(p) {
		return "Waiting for the server's machine, which does not respond"
	}
	if !p.Metadata.DeletionTimestamp.IsZero() {
		return "Waiting until mysqld has stopped"
	}
	return ""
}

// unscheduled translates a message of the scheduler for users.
func unscheduled(message string) string {
	switch {
	case strings.Contains(message, "PersistentVolumeClaim"):
		return "Waiting for the volume"
	case strings.Contains(message, "anti-affinity"):
		return "Waiting for a node of its own"
	case strings.Contains(message, "Insufficient memory"):
		return "Waiting for a node with enough memory"
	case strings.Contains(message, "Insufficient cpu"):
		return "Waiting for a node with a free processor"
	}
	return "Waiting for a node"
}

const fetchingImage = "Fetching the image"

// notRunning returns what a container waits for.
func notRunning(c api.ContainerStatus, otherwise string) string {
	if c.State.Waiting == nil {
		return otherwise
	}
	if c.Fetching() {
		return fetchingImage
	}
	switch c.State.Waiting.Reason {
	case "ContainerCreating":
		return "Attaching the volume"
	case "PodInitializing":
		return "Preparing the data directory"
	case "CrashLoopBackOff":
		return "Starting mysqld again, which ended as it started"
	}
	return otherwise
}

// ended returns why a container keeps ending.
func ended(s *server, c api.ContainerStatus) error {
	why, sentence := "it says nothing of why", noServers
	for _, t := range []api.ContainerState{c.State, c.LastState} {
		if t.Terminated == nil {
			continue
		}
		why = fmt.Sprintf("%s, exit code %d: %s", t.Terminated.Reason, t.Terminated.ExitCode, t.Terminated.Message)
		if t.Terminated.Reason == "OOMKilled" {
			sentence = "The memory of this plan is too little for mysqld."
		}
	}
	return &launcher.Error{Action: launcher.GiveUp, Sentence: sentence,
		Err: fmt.Errorf("server %s: the container %s has ended %d times: %s", s.id, c.Name, c.RestartCount, why)}
}

// errNoPod is in the errors of whyNoPod.
var errNoPod = errors.New("its pod cannot be created")

// whyNoPod returns an error if the StatefulSet cannot create a pod. Only an event says so, no condition does. The API
// server reads all events of the namespace to find those of one object, so whyNoPod asks only after the StatefulSet's
// controller has failed to create a pod. Each change of the StatefulSet has it try again: earlier events do not count.
func (r *runner) whyNoPod(ctx context.Context, s *server, set api.StatefulSet) error {
	if set.Status.ObservedGeneration != set.Metadata.Generation || set.Status.Replicas > 0 {
		return nil
	}
	query := url.Values{"fieldSelector": {"reason=FailedCreate,involvedObject.uid=" + set.Metadata.UID}}
	var found api.EventList
	if err := r.api.Get(ctx, r.api.Path(api.Events)+"?"+query.Encode(), &found); err != nil {
		return err
	}
	for _, e := range found.Items {
		last := e.Metadata.ChangedAt()
		if last.Before(set.Metadata.ChangedAt()) {
			continue
		}
		err := fmt.Errorf("server %s: %w: %s", s.id, errNoPod, e.Message)
		if saysNoRoom(e.Message) {
			return launcher.NoRoom(err)
		}
		// Other causes may be temporary: a new namespace has no ServiceAccount yet, for example.
		first := later(e.Metadata.CreationTimestamp, set.Metadata.StatusChangedAt()) // there may have been a pod in between
		if last.Sub(first) > r.cfg.PlaceTimeout || strings.Contains(e.Message, "violates PodSecurity") {
			return &launcher.Error{Action: launcher.GiveUp, Sentence: noServers, Err: err}
		}
	}
	return nil
}

func mysqldOf(p api.Pod) api.ContainerStatus { return p.Container(containerName) }

// startingTime limits the request of Starting.
const startingTime = 3 * time.Second

// Starting implements launcher.Launcher. It is false if the API server does not respond.
func (l *Launcher) Starting(id string) bool {
	name, err := objectName(id)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), startingTime)
	defer cancel()
	var p api.Pod
	if err := l.secrets.api.Get(ctx, l.secrets.api.Path(api.Pods, name+"-0"), &p); err != nil {
		return false
	}
	if !p.Metadata.DeletionTimestamp.IsZero() { // another pod follows, unless the node is lost
		return !l.secrets.lost(p)
	}
	c := mysqldOf(p)
	if c.Ready || c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff" {
		return false
	}
	up, known := l.run.up.Load(id)
	return !known || up != c.ContainerID
}

// loginTime limits a login, because a server may accept connections and not respond.
const loginTime = 5 * time.Second

func adminLogin(s *server, spec launcher.Spec) mysqladmin.Config {
	e := s.endpoint()
	return mysqladmin.Config{Name: s.id, Addr: e.AdminAddress(), ServerName: e.Host, User: spec.AdminUser,
		Password: spec.AdminPassword, CA: e.CACertificate, MaxConns: 1}
}

// login checks that the administrator can log in. It returns NotYet while the server does not respond.
func (r *runner) login(ctx context.Context, s *server, spec launcher.Spec, p api.Pod) error {
	limited, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	err := mysqladmin.CheckLogin(limited, adminLogin(s, spec), "")
	if err == nil || ctx.Err() != nil {
		return err
	}
	_, refused := errors.AsType[*mysql.MySQLError](err)
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	if refused || unverified {
		return fmt.Errorf("server %s: log in as its admin account: %w", s.id, err)
	}
	return r.poll(p.Metadata.CreationTimestamp, "Starting mysqld")
}
