package engine

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// Failure is why a step failed. The packages that know the errors of servers, launchers and object stores recognize it;
// the table says what follows.
type Failure int

const (
	ServerSilent    Failure = iota // the task's server cannot be reached, or does not answer
	ServerFull                     // the disk of the server is full
	AccountsFull                   // the same, for a step that takes privileges away
	NewServerFull                  // the same, on the server of a new instance
	OtherServerFull                // the same, on the server to which an instance moves
	RestoringFull                  // the same, in a restore in place; says what becomes of the data

	LauncherRefused // a launcher gives up; its sentence, and what a user can do
	LauncherFailed  // its sentence

	Refused       // by a server or a copy, for a reason that is the user's; its sentence
	TablesChanged // while they were read
	TablesLocked
	TablesLockedByXA // maybe by a forgotten transaction. Writers wait during each attempt, so that these are rare
	LockedTooLong
	RollingBack
	PreparedXA
	PreparedTooLong
	ComparedTooLong
	SourceSilent      // the server of the instance to copy
	MovedSourceSilent // the server from which an instance moves
	SourceAway        // at the end of a copy: its account is still there
	SourceGone

	StoreRefused // of the object store
	StoreFailed
	StoreStalled
	BackupDamaged
	BackupGone
	BackupUseless // says which backup
	BackupWithoutPosition
	BackupUnfit // names the flavours
	CredHubFailed

	DatabaseDropped // by a user
	SourceDropped   // the database of the instance to copy
	DatabaseLost    // with the accounts
	RestoredDropped // by an operator: what was to take the place of the data
	DatabaseNotLost
	DatabaseUsed // a new one holds data
	RetainedLost
	BootstrapFailed // says which statement, how it begins, and the number of the error
	BootstrapTalks  // says which statement, how it begins, and how many MiB are read
	BootstrapLong   // says how long
)

// next is what a task does after a failure.
type next int

const (
	giveUp  next = iota // task.Permanent
	retry               // task.Failure
	await               // task.Unreachable
	pending             // task.Pending
)

const (
	full = "The disk of the MySQL server is full. Try again when there is room."
	away = "The object store for backups failed, or did not answer."
	// endXA is how users end prepared XA transactions. MySQL lets only administrators list them.
	endXA = "XA COMMIT or XA ROLLBACK ends it. On MariaDB, XA RECOVER lists prepared transactions; on MySQL, ask " +
		"your operator for the list if your app does not know it."
)

// failures is the only table of what tasks do after a failure, and of what users read then. {task} is the task's token.
var failures = map[Failure]struct {
	next     next
	sentence string
	pause    time.Duration // until it is tried again
	other    bool          // the error is not one of the task's server, whatever it says
}{
	ServerSilent: {next: await},
	ServerFull:   {next: giveUp, sentence: full},
	AccountsFull: {next: retry, sentence: full},
	NewServerFull: {next: giveUp, other: true,
		sentence: "The disk of the MySQL server for the new service instance is full. Delete the service instance, and " +
			"create it again when there is room. Tell your operator about {task}."},
	OtherServerFull: {next: giveUp, other: true,
		sentence: "The disk of the MySQL server for the plan is full. The service instance stays where it was. Tell " +
			"your operator about {task}."},
	RestoringFull: {next: giveUp,
		sentence: "The disk of the MySQL server is full. %s Tell your operator about {task}."},
	LauncherRefused: {next: giveUp, sentence: "%s %s Tell your operator about {task}."},
	LauncherFailed:  {next: retry, sentence: "%s"},
	Refused:         {next: giveUp, sentence: "%s"},
	TablesChanged:   {next: retry, sentence: "Tables were changed while they were copied."},
	TablesLocked: {next: pending, pause: 5 * time.Second,
		sentence: "Waiting for a transaction that keeps a table locked"},
	TablesLockedByXA: {next: pending, pause: 30 * time.Second,
		sentence: "Waiting for a transaction that keeps a table locked"},
	LockedTooLong: {next: giveUp,
		sentence: "A transaction has kept a table of the service instance locked for too long. End it, and try again. " +
			"It may be a prepared XA transaction, which outlives its session: " + endXA},
	RollingBack: {next: pending, pause: time.Second,
		sentence: "Waiting until the last writes are rolled back"},
	PreparedXA: {next: pending, pause: time.Second,
		sentence: "Waiting for the end of a prepared XA transaction"},
	PreparedTooLong: {next: giveUp,
		sentence: "A prepared XA transaction has changed data of the service instance, and such changes cannot be moved " +
			"or backed up. End it, and try again: " + endXA},
	ComparedTooLong: {next: giveUp,
		sentence: "The data could not be compared in time, and apps can write again. Update the service instance again " +
			"when its MySQL servers are less busy."},
	SourceSilent: {next: retry, other: true,
		sentence: "The MySQL server of the service instance to copy did not answer, or refused."},
	MovedSourceSilent: {next: retry, other: true,
		sentence: "The MySQL server from which the data is moved did not answer, or refused. The data is still there."},
	SourceAway: {next: pending, pause: time.Second,
		sentence: "Waiting for the server from which the data was copied"},
	SourceGone: {next: giveUp,
		sentence: "The service instance to copy was deleted, or is not ready. Delete this one."},
	StoreRefused: {next: giveUp,
		sentence: "The object store for backups refused the request. Tell your operator about {task}."},
	StoreFailed:  {next: retry, other: true, sentence: away},
	StoreStalled: {next: giveUp, sentence: away},
	BackupDamaged: {next: giveUp,
		sentence: "The backup is damaged. Restore another one, and tell your operator about {task}."},
	BackupGone: {next: giveUp, sentence: "The backup is gone. Restore another one."},
	BackupUseless: {next: giveUp,
		sentence: "The backup %s was written, but cannot be restored. Tell your operator about {task}."},
	BackupWithoutPosition: {next: giveUp,
		sentence: "The backup does not say where in the binary logs it was taken."},
	BackupUnfit: {next: giveUp,
		sentence: "The server of this service instance is %s, and cannot take a backup of %s. Restore it into a new " +
			"one. %s"},
	CredHubFailed: {next: retry, sentence: "The credentials could not be stored in CredHub."},
	DatabaseDropped: {next: giveUp,
		sentence: "The database of this service instance does not exist: somebody has dropped it. Restore a backup in " +
			"place, with the parameters restore_backup and confirm, or delete the service instance."},
	SourceDropped: {next: giveUp,
		sentence: "The database of the service instance to copy does not exist: somebody has dropped it."},
	DatabaseLost: {next: giveUp,
		sentence: "The database of this service instance is lost. As an operator, restore the backup with `mysql-broker " +
			"backups restore --lost`."},
	RestoredDropped: {next: giveUp,
		sentence: "What was restored was dropped before it took the place of the data. The service instance stays as it " +
			"was. Restore the backup again, and tell your operator about {task}."},
	DatabaseNotLost: {next: giveUp,
		sentence: "The database is not lost: it holds data. Restore the backup without --lost, so that the data is " +
			"backed up first."},
	DatabaseUsed: {next: giveUp, sentence: "The new database holds earlier data."},
	RetainedLost: {next: giveUp,
		sentence: "The data of the deleted service instance is not on its server any more. Ask your operator."},
	BootstrapFailed: {next: giveUp,
		sentence: "Statement %d of the parameter bootstrap%s failed with MySQL's error %d. Delete the service instance, " +
			"mend the SQL, and create it again."},
	BootstrapTalks: {next: giveUp,
		sentence: "Statement %d of the parameter bootstrap%s returns more than %d MiB, which nobody reads. Delete the " +
			"service instance, take the statement out, and create it again."},
	BootstrapLong: {next: giveUp,
		sentence: "The parameter bootstrap took longer than %v. Delete the service instance, shorten the SQL, and " +
			"create it again."},
}

// Fail returns the error by which a step says what its task does next, and what users read. args complete the sentence;
// err is for operators.
func Fail(t store.Task, f Failure, err error, args ...any) error {
	row := failures[f]
	sentence := fmt.Sprintf(strings.ReplaceAll(row.sentence, "{task}", task.Token(t.ID)), args...)
	if row.other {
		err = OfOther(err)
	}
	switch row.next {
	case await:
		if errors.Is(err, store.ErrUnavailable) { // the work asks PostgreSQL, too: that says nothing about the server
			return err
		}
		return task.Unreachable(err)
	case pending:
		return task.Pending(row.pause, sentence)
	case retry:
		return task.Failure(sentence, err)
	}
	return task.Permanent(sentence, err)
}

// OfOther keeps an error from being taken for one of the task's server: it is that of another connection.
func OfOther(err error) error {
	if err == nil {
		return nil
	}
	return &otherError{err}
}

type otherError struct{ error }

// storeErrors has what follows for a request from the errors of PostgreSQL. None has changed anything.
var storeErrors = []struct {
	is  error
	now Error
}{
	{store.ErrUnavailable, Error{Code: Unavailable,
		Sentence: "The service broker cannot reach its own database just now. Databases and apps are not affected. Try " +
			"again in a minute, or tell your operator."}},
	{store.ErrHeld, Error{Code: Unavailable,
		Sentence: "The service broker's own database was restored from a backup and is being compared with the servers. " +
			"Databases and apps are not affected. Nothing was changed. Try again later, or ask your operator."}},
	{store.ErrLocked, Error{Code: Busy,
		Sentence: "Another operation, which this one has to wait for, is in progress. Try again in a minute."}},
	{store.ErrText, Error{Code: Invalid,
		Sentence: "The request has a character that the service broker cannot store, such as U+0000."}},
}

// Explain finds the Error in err, or the one that an error of PostgreSQL becomes. It is nil if there is neither.
func Explain(err error) *Error {
	if refusal, ok := errors.AsType[*Error](err); ok {
		return refusal
	}
	for _, e := range storeErrors {
		if errors.Is(err, e.is) {
			return &Error{Code: e.now.Code, Sentence: e.now.Sentence, Err: err}
		}
	}
	return nil
}

// Silent is the error of a request that needs a server which does not answer. of says which one, if it is not the
// instance's.
func Silent(of string, err error) error {
	return &Error{Code: Unavailable, Err: err, Sentence: fmt.Sprintf("The MySQL server%s does not answer just now. "+
		"Try again in a minute, or tell your operator.", of)}
}
