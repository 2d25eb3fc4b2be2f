package engine

import "fmt"

// Code says what kind of refusal or failure an Error is.
type Code int

// Package broker has the HTTP status of each code.
const (
	Invalid           Code = iota // the request can never work
	Conflict                      // the id is taken by something else
	NotFound                      // there is nothing of this id
	AlreadyDeleted                // there is nothing of this id to delete
	NeedsAsync                    // the plan works asynchronously only
	Busy                          // another operation is in progress
	PlanChangeRefused             // this plan cannot become that one
	TooMuchData                   // the data does not fit the plan
	TooManyBindings               // the plan allows no more
	Full                          // no shared server has room
	Unavailable                   // the broker or a server failed; trying again may help
)

// Error is the result of a request that did not succeed. Sentence is for users and says what to do next; Err is for
// operators.
type Error struct {
	Code     Code
	Sentence string
	Err      error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Sentence
	}
	return fmt.Sprintf("%s (%v)", e.Sentence, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Refuse returns an Error whose sentence is all there is to say.
func Refuse(code Code, format string, args ...any) error {
	return &Error{Code: code, Sentence: fmt.Sprintf(format, args...)}
}

var (
	ErrAsyncRequired = Refuse(NeedsAsync, "This plan needs a platform that accepts asynchronous operations: "+
		"send accepts_incomplete=true.")
	ErrBusy   = Refuse(Busy, "Another operation on this service instance is in progress; try again once it has ended.")
	ErrFrozen = Refuse(Invalid, "A restore of this service instance failed, and its data may be a mixture. Restore one "+
		"of its backups in place first, with the parameters restore_backup and confirm.")
	ErrFull = Refuse(Full, "There is no room for another database on the shared MySQL servers. "+
		"Ask your operator to add a server, or choose a dedicated plan.")
	// ErrTaken is ErrFull for a plan that is exclusive.
	ErrTaken = Refuse(Full, "Every server of this plan is taken: each is for one service instance. "+
		"Ask your operator to add a server, or choose another plan.")
)

var ErrNotReady = Refuse(Invalid, "The creation or deletion of this service instance failed. "+
	"Delete the service instance and create it again.")
