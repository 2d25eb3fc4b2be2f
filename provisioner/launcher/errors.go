package launcher

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// ErrNotFound is returned for a server that was never launched or has been destroyed.
var ErrNotFound = errors.New("launcher: no such server")

// ErrKept is returned by DestroyUnused for a server that was given to Keep.
var ErrKept = errors.New("launcher: the server was reported ready once and is kept")

// ErrNoRoom is in the chain of an Error that gives up because the place that servers run in has no room for what was
// asked for: no port, or no space on its disk.
var ErrNoRoom = errors.New("launcher: no room")

// Action is what the caller does about an Error.
type Action int

const (
	TryAgain Action = iota // some times, after pauses; what any other error means too
	Wait                   // call again after a pause: what the launcher began goes on by itself
	GiveUp                 // trying again cannot help
)

// Error is what a launcher returns where it knows more of a failure than that it happened.
type Error struct {
	Action   Action
	After    time.Duration // the pause, of Wait
	Sentence string        // for users, without a secret; of Wait, what goes on: "Waiting for the disk"
	Err      error         // for operators; nil of Wait
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("launcher: not yet, look again in %v: %s", e.After, cmp.Or(e.Sentence, "it goes on"))
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// NotYet says that what was begun goes on by itself, and when to call again. progress is for users.
func NotYet(after time.Duration, progress string) error {
	return &Error{Action: Wait, After: after, Sentence: progress}
}

// NoRoom says that there is no room, and for what.
func NoRoom(err error) error {
	if !errors.Is(err, ErrNoRoom) {
		err = fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	return &Error{Action: GiveUp, Sentence: "There is no room for a dedicated server of this size just now.", Err: err}
}
