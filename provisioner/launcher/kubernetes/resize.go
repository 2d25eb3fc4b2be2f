package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/mysqladmin"
)

// Resize implements launcher.Launcher. It resizes the pod in place and sets mysqld's variables by SQL, so sessions stay
// open. If Kubernetes cannot do that, it replaces the pod. A volume can grow, but never shrinks.
func (l *Launcher) Resize(ctx context.Context, spec launcher.Spec,
	report func(progress string)) (_ launcher.Endpoint, err error) {
	defer func() { err = explain(err) }()
	if _, err := l.imageOf(spec); err != nil {
		return launcher.Endpoint{}, err
	}
	s, err := l.find(ctx, spec.ID)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	if err := l.abandonUpgrade(ctx, s, ignored); err != nil {
		return launcher.Endpoint{}, err
	}
	if s.state.Phase == phaseSuspended {
		return launcher.Endpoint{}, launcher.ErrNotFound
	}
	if s.state.Phase != phaseReady {
		return launcher.Endpoint{}, fmt.Errorf("server %s: cannot resize what was not launched", s.id)
	}
	next := s.state
	next.MemoryMB, next.MilliCPU, next.StorageMB = spec.MemoryMB, spec.MilliCPU, spec.StorageMB
	next.BinaryLogs = spec.BinaryLogs
	next.ClaimMB, next.Placement = max(next.ClaimMB, spec.StorageMB), spec.Placement
	if reflect.DeepEqual(next, s.state) {
		return l.bringUp(ctx, s, spec)
	}
	report("Changing the server's size")
	if ctx.Err() != nil { // the report may have found that another has the work now
		return launcher.Endpoint{}, fmt.Errorf("server %s: %w", s.id, context.Cause(ctx))
	}
	if err := l.resizeTo(ctx, s, next, spec); err != nil {
		return launcher.Endpoint{}, err
	}
	return l.bringUp(ctx, s, spec)
}

// resizeTo changes the objects to the state next, and then records that state. All of it can be repeated.
func (l *Launcher) resizeTo(ctx context.Context, s *server, next state, spec launcher.Spec) error {
	present := s.state
	wanted := *s
	wanted.state = next
	inPlace := present.sameNodes(next) && present.BinaryLogs == next.BinaryLogs // else mysqld has to restart
	if next.ClaimMB > present.ClaimMB {
		online, err := l.growVolume(ctx, &wanted)
		if err != nil {
			return err
		}
		inPlace = inPlace && online
		fault.Point("resize", "volume grown")
	}
	if inPlace {
		var err error
		if inPlace, err = l.resizeInPlace(ctx, s, next, spec); err != nil {
			return err
		}
	}
	fault.Point("resize", "pod resized")
	if err := l.api.apply(ctx, l.api.path(statefulSets, s.name), l.statefulSetOf(&wanted), nil); err != nil {
		return err
	}
	fault.Point("resize", "template changed")
	if err := l.change(ctx, s, func(s *server) {
		s.state.MemoryMB, s.state.MilliCPU = next.MemoryMB, next.MilliCPU
		s.state.BinaryLogs = next.BinaryLogs
		s.state.StorageMB, s.state.ClaimMB, s.state.Placement = next.StorageMB, next.ClaimMB, next.Placement
		s.secret.Data[settingsFile] = settings(s.state)
	}); err != nil {
		return err
	}
	if inPlace {
		return nil
	}
	err := l.api.delete(ctx, l.api.path(pods, s.podName()), deleteOptions{})
	if err != nil && !isNotFound(err) {
		return err
	}
	return launcher.NotYet(minPoll, "Restarting mysqld with its new size")
}

// resizeInPlace changes the limits of a running pod and the settings of its mysqld. It returns false if the pod must be
// replaced: it does not run, or the cluster cannot resize it (before 1.33, and before 1.34 for less memory).
func (l *Launcher) resizeInPlace(ctx context.Context, s *server, next state, spec launcher.Spec) (bool, error) {
	var p pod
	err := l.api.get(ctx, l.api.path(pods, s.podName()), &p)
	if isNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if sentence := p.leaving(); sentence != "" { // what is patched now would be lost with it
		return false, launcher.NotYet(pollAfter(p.Metadata.DeletionTimestamp), sentence)
	}
	if p.mysqld().State.Running == nil || p.Metadata.Annotations[workAnnotation] != "" {
		return false, nil
	}
	if next.MemoryMB < s.state.MemoryMB { // mysqld frees the memory before the limit changes
		if err := l.setGlobals(ctx, s, next, spec); err != nil {
			return false, err
		}
	}
	if len(p.Spec.Containers) == 1 && !equal(p.Spec.Containers[0].Resources, next.resources()) {
		var resized pod
		err := l.api.strategicMerge(ctx, l.api.path(pods, s.podName(), "resize"), podResize(next), &resized)
		if isNotFound(err) || isStatus(err, http.StatusMethodNotAllowed) || isStatus(err, http.StatusUnprocessableEntity) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		p = resized
	}
	if err := l.awaitResized(ctx, s, p, next); err != nil {
		return false, err
	}
	if next.MemoryMB > s.state.MemoryMB {
		if err := l.setGlobals(ctx, s, next, spec); err != nil {
			return false, err
		}
	}
	return true, nil
}

// podResize is a patch that changes the resources of mysqld's container, and nothing else of the pod.
// https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/
func podResize(st state) any {
	type resized struct {
		Name      string    `json:"name"`
		Resources resources `json:"resources"`
	}
	return map[string]any{"spec": map[string]any{"containers": []resized{{containerName, st.resources()}}}}
}

// awaitResized returns NotYet until the node has changed the limits. If the node lacks room for too long, it restores
// the pod's former size.
func (l *Launcher) awaitResized(ctx context.Context, s *server, p pod, next state) error {
	pending := p.condition("PodResizePending")
	switch {
	case pending.Status == "True" && (pending.Reason == "Infeasible" ||
		!pending.LastTransitionTime.IsZero() && time.Since(pending.LastTransitionTime) > l.cfg.PlaceTimeout):
		err := l.api.strategicMerge(ctx, l.api.path(pods, s.podName(), "resize"), podResize(s.state), nil)
		return launcher.NoRoom(errors.Join(fmt.Errorf("server %s: its node has no room: %s", s.id, pending.Message), err))
	case pending.Status == "True":
		return launcher.NotYet(time.Second, "Waiting until the server's node has room")
	case !equal(p.mysqld().Resources, next.resources()):
		return launcher.NotYet(minPoll, "Changing the server's memory")
	}
	return nil
}

// equal compares quantities. The API server may write those of the launcher in another form: 1024Mi as 1Gi.
func equal(a, b resources) bool {
	same := func(a, b string) bool { return a == b || toMilli(a) == toMilli(b) }
	return maps.EqualFunc(a.Limits, b.Limits, same) && maps.EqualFunc(a.Requests, b.Requests, same)
}

// toMilli parses a quantity; it returns -1 for one with an exponent, or that is too large.
// https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
func toMilli(quantity string) int64 {
	unit := int64(1000)
	for suffix, size := range units {
		if number, ok := strings.CutSuffix(quantity, suffix); ok {
			quantity, unit = number, size
			break
		}
	}
	n, err := strconv.ParseInt(quantity, 10, 64)
	if err != nil || n > math.MaxInt64/unit {
		return -1
	}
	return n * unit
}

// units maps each suffix to its thousandths. No suffix is the end of another one.
var units = map[string]int64{"m": 1, "k": 1e6, "M": 1e9, "G": 1e12, "T": 1e15, "P": 1e18,
	"Ki": 1000 << 10, "Mi": 1000 << 20, "Gi": 1000 << 30, "Ti": 1000 << 40, "Pi": 1000 << 50}

// Errors of MySQL and MariaDB for a variable that this version does not have, or that can only be set at the start.
const (
	unknownVariable  = 1193 // ER_UNKNOWN_SYSTEM_VARIABLE
	readOnlyVariable = 1238 // ER_INCORRECT_GLOBAL_LOCAL_VAR

	// ER_WRONG_USAGE: MariaDB still changes the size of its redo log, for a broker that was killed meanwhile.
	changeInProgress = 1221
)

// setGlobals sets the variables that differ between two sizes. Variables that can only be set at the start keep their
// values until then. It returns NotYet while an earlier change of one of them is in progress.
func (l *Launcher) setGlobals(ctx context.Context, s *server, next state, spec launcher.Spec) error {
	ctx, cancel := context.WithTimeout(ctx, setTime)
	defer cancel()
	for _, statement := range changedGlobals(s.state, next) {
		err := mysqladmin.Exec(ctx, adminLogin(s, spec), statement)
		if refused, ok := errors.AsType[*mysql.MySQLError](err); ok {
			switch refused.Number {
			case unknownVariable, readOnlyVariable:
				continue
			case changeInProgress:
				return launcher.NotYet(minPoll, "Changing the server's memory")
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const setTime = 30 * time.Second // for all statements

// changedGlobals returns the statements that change a server's settings from one state to another. The options
// maximum-… limit what sessions may set, and are not variables.
func changedGlobals(from, to state) (statements []string) {
	before := map[string]bool{}
	for _, line := range mysqld.Settings(from.Flavour, from.MemoryMB, 0, from.BinaryLogs) {
		before[line] = true
	}
	for _, line := range mysqld.Settings(to.Flavour, to.MemoryMB, 0, to.BinaryLogs) {
		name, value, _ := strings.Cut(strings.TrimPrefix(line, "loose-"), "=")
		if before[line] || strings.HasPrefix(name, "maximum-") {
			continue
		}
		if number, ok := strings.CutSuffix(value, "M"); ok {
			if n, err := strconv.Atoi(number); err == nil {
				value = strconv.Itoa(n << 20)
			}
		}
		statements = append(statements, fmt.Sprintf("SET GLOBAL %s = %s", strings.ReplaceAll(name, "-", "_"), value))
	}
	return statements
}
