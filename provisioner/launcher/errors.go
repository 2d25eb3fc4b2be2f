package launcher

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// ErrNotFound is returned for a server that was never launched or has been destroyed.
var ErrNotFound = errors.New("launcher: no such server")

// ErrKept is returned by DestroyUnused for a server for which Keep was called.
var ErrKept = errors.New("launcher: the server was reported ready once and is kept")

// ErrNoRoom is wrapped by an Error that gives up because there is no room for the server: no free port, or no space on
// the disk.
var ErrNoRoom = errors.New("launcher: no room")

// Action is what the caller does about an Error. The zero value, as any other error, means to try again a limited
// number of times, with pauses.
type Action int

const (
	Wait   Action = iota + 1 // call again after a pause: the launcher's work continues by itself
	GiveUp                   // trying again cannot help
)

// Error is a failure with advice on what to do about it.
type Error struct {
	Action   Action
	After    time.Duration // the pause in case of Wait
	Sentence string        // for users, without a secret; the progress in case of Wait: "Waiting for the disk"
	Err      error         // for operators; nil in case of Wait
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("launcher: not yet, try again in %v: %s", e.After, cmp.Or(e.Sentence, "it goes on"))
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// NotYet is the error for work that continues by itself. It says when to call again. progress is for users.
func NotYet(after time.Duration, progress string) error {
	return &Error{Action: Wait, After: after, Sentence: progress}
}

// NoRoom wraps err as an Error that gives up for lack of room.
func NoRoom(err error) error {
	if !errors.Is(err, ErrNoRoom) {
		err = fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	return &Error{Action: GiveUp, Sentence: "There is no room for a dedicated server of this size just now.", Err: err}
}
