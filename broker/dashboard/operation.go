package dashboard

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// operation is the part of a page about the latest operation on an instance.
type operation struct {
	Gone        bool
	None        bool
	InProgress  bool
	Failed      bool
	Title       string
	Description string
	Stage       int // of Stages, 0 if it is not known
	Stages      int
	Token       string
	Since       time.Time
	Ended       *time.Time
}

// doing has texts for the kinds of operations: in progress, succeeded, failed.
var doing = map[string][3]string{
	store.Provision: {"This service instance is being created", "Created", "The creation failed"},
	store.BackUp:    {"A backup is being taken", "A backup was taken", "The backup failed"},
	store.Restore:   {"A backup is being restored", "A backup was restored", "The restore failed"},
	store.Update:    {"This service instance is being changed", "Changed", "The change failed"},
	store.Deprovision: {"This service instance is being deleted", "This service instance has been deleted",
		"The deletion failed"},
}

// stage matches the count that provisioner/task adds to progress: "Starting mysqld (2 of 5)".
var stage = regexp.MustCompile(`^(.*) \((\d+) of (\d+)\)$`)

func newOperation(a store.Activity) operation {
	if a.State == "" {
		return operation{Gone: true}
	}
	t := a.Latest
	if t.ID == 0 {
		return operation{None: true}
	}
	o := operation{InProgress: t.State == store.InProgress, Failed: t.State == store.Failed, Description: t.Description,
		Token: task.Token(t.ID), Since: t.CreatedAt, Ended: t.FinishedAt}
	words, known := doing[t.Kind]
	if !known {
		words = [3]string{fmt.Sprintf("%s in progress", t.Kind), t.Kind + " succeeded", t.Kind + " failed"}
	}
	switch {
	case o.InProgress:
		o.Title = words[0]
		if m := stage.FindStringSubmatch(t.Description); m != nil {
			o.Description = m[1]
			o.Stage, _ = strconv.Atoi(m[2]) // digits, as the expression says
			o.Stages, _ = strconv.Atoi(m[3])
		}
	case o.Failed:
		o.Title = words[2]
	default:
		o.Title = words[1] // the description says what to do, or the id of a backup
	}
	return o
}
