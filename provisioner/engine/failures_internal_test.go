package engine

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// Each failure has a row, and its sentence says all that it is given, and whom to tell about which task.
func TestFail(t *testing.T) {
	t.Parallel()
	const next, sentence = "Delete it.", "There is no room for {task} of 100 %."
	err, of := errors.New("refused"), store.Task{ID: 7}
	for what, test := range map[string]struct{ got, want error }{
		"waits":     {Fail(of, ServerSilent, err), task.Unreachable(err)},
		"an outage": {Fail(of, ServerSilent, store.ErrUnavailable), store.ErrUnavailable}, // of PostgreSQL
		"looks":     {Fail(of, TablesLocked, err), task.Pending(5*time.Second, failures[TablesLocked].sentence)},
		"gives up":  {Fail(of, ServerFull, err), task.Permanent(full, err)},
		"retries":   {Fail(of, AccountsFull, err), task.Failure(full, err)},
		"of others": {Fail(of, StoreFailed, err), task.Failure(away, OfOther(err))},
		"completes": {Fail(of, LauncherRefused, err, sentence, next),
			task.Permanent(sentence+" "+next+" Tell your operator about task_7.", err)},
	} {
		assert.True(t, reflect.DeepEqual(test.got, test.want), "%s: %#v, want %#v", what, test.got, test.want)
	}
	hidden := Fail(of, SourceSilent, err)
	assert.True(t, !errors.Is(hidden, err) && strings.Contains(hidden.Error(), "refused"),
		"the error of another server can be seen: %v", hidden)
	for f := ServerSilent; f <= BootstrapLong; f++ {
		row, found := failures[f]
		assert.False(t, !found || row.sentence == "" && row.next != await || row.pause == 0 != (row.next != pending),
			"%d: %+v", f, row)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	refused := Refuse(Conflict, "It exists.")
	for err, want := range map[error]Code{refused: Conflict, fmt.Errorf("%w: %w", store.ErrHeld, refused): Conflict,
		store.ErrUnavailable: Unavailable, store.ErrHeld: Unavailable, store.ErrLocked: Busy, store.ErrText: Invalid} {
		e := Explain(fmt.Errorf("wrapped: %w", err))
		assert.False(t, e == nil || e.Code != want || e.Sentence == "", "%v becomes %v", err, e)
	}
	e := Explain(errors.New("another"))
	assert.Nil(t, e, "%v", e)
}

// A deletion is tried again only where it left the instance or binding.
func TestFailedToDelete(t *testing.T) {
	t.Parallel()
	deletion := store.Task{Kind: store.Deprovision}
	unbind := store.Task{Kind: store.Unbind, BindingID: "b"}
	instance := func(state string) store.Beginning { return store.Beginning{Instance: store.Instance{State: state}} }
	binding := func(state string) store.Beginning { return store.Beginning{Binding: &store.Binding{State: state}} }
	busy, other := binding(store.Ending), binding(store.Ending)
	busy.Active, other.Active = []store.Task{{ID: 7}}, []store.Task{{ID: 7, BindingID: "another"}}
	for what, test := range map[string]struct {
		there  store.Beginning
		failed store.Task
		says   string // "" if it may be tried again
	}{
		"as it was left":              {instance(store.DeleteFailed), deletion, ""},
		"the instance works again":    {instance(store.Ready), deletion, `the service instance is "ready"`},
		"a binding as it was left":    {binding(store.Ending), unbind, ""},
		"the binding works again":     {binding(store.Ready), unbind, `the service binding is "ready"`},
		"the binding is gone":         {store.Beginning{}, unbind, store.ErrNotFound.Error()},
		"the instance is busy":        {busy, unbind, "task_7 is in progress"},
		"another binding is changing": {other, unbind, ""},
	} {
		err := failedToDelete(test.there, test.failed)
		assert.False(t, (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says),
			"%s: %v", what, err)
	}
}
