package engine

import (
	"errors"

	"mysql-broker/provisioner/task"
)

// ForEach calls do for everything that is due, even if some of the calls fail, until the task's lease is lost.
func ForEach[Due any](run *task.Run, due []Due, do func(Due) error) error {
	var failed []error
	for _, d := range due {
		if err := run.Alive(); err != nil {
			return err
		}
		failed = append(failed, do(d))
	}
	return errors.Join(failed...)
}
