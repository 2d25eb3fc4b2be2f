package engine

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

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
		if !reflect.DeepEqual(test.got, test.want) {
			t.Errorf("%s: %#v, want %#v", what, test.got, test.want)
		}
	}
	if hidden := Fail(of, SourceSilent, err); errors.Is(hidden, err) || !strings.Contains(hidden.Error(), "refused") {
		t.Errorf("the error of another server can be seen: %v", hidden)
	}
	for f := ServerSilent; f <= BootstrapLong; f++ {
		if row, found := failures[f]; !found || row.sentence == "" && row.next != await || row.pause == 0 != (row.next != look) {
			t.Errorf("%d: %+v", f, row)
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	refused := Refuse(Conflict, "It exists.")
	for err, want := range map[error]Code{refused: Conflict, fmt.Errorf("%w: %w", store.ErrHeld, refused): Conflict,
		store.ErrUnavailable: Unavailable, store.ErrHeld: Unavailable, store.ErrLocked: Busy, store.ErrText: Invalid} {
		if e := Explain(fmt.Errorf("wrapped: %w", err)); e == nil || e.Code != want || e.Sentence == "" {
			t.Errorf("%v becomes %v", err, e)
		}
	}
	if e := Explain(errors.New("another")); e != nil {
		t.Error(e)
	}
}
