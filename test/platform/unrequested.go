package platform

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"mysql-broker/test/audit"
)

// Kinds of tasks that no platform requests: the end of an expired binding, and a new password after a leak.
const (
	Expire = "expire"
	Rotate = "rotate"
)

// PrepareUnrequested makes an instance with a binding, on whose view another one depends.
func (w *World) PrepareUnrequested(ctx context.Context, f Workflow) (Target, error) {
	x := Target{Workflow: f, Instance: audit.Instance{ID: uuid.NewString(), PlanID: f.Plan.ID}}
	err := w.Make(f.Plan, false, &x.Instance)
	if err == nil {
		x.Binding, err = w.BindWith(f.Plan, x.Instance.ID, map[string]any{"ttl": "8h"})
	}
	if err == nil {
		x.Before, err = w.Bind(f.Plan, x.Instance.ID)
	}
	if err == nil {
		x.Instance.Note = uuid.NewString()
		err = WriteNote(ctx, x.Binding.Credentials, x.Instance.Note)
	}
	if err == nil && f.View {
		err = DefineView(ctx, x.Binding.Credentials)
	}
	w.Tell(x.Instance)
	return x, err
}

// EndTime ends the time of the binding.
func (w *World) EndTime(ctx context.Context, x Target) error {
	_, err := w.Tasks.Exec(ctx, "UPDATE binding SET expires_at = now() WHERE id = $1", x.Binding.ID)
	return err
}

// LearnOfRotation fetches the new passwords, and expects that the old one works no more.
func (w *World) LearnOfRotation(ctx context.Context, x *Target) error {
	leaked := x.Binding.Credentials
	for _, b := range []*audit.Binding{&x.Binding, &x.Before} {
		r, err := w.Send("GET", BindingPath(x.Instance.ID, b.ID), nil)
		if err != nil {
			return err
		}
		if b.Credentials, err = audit.ReadCredentials(r.Body["credentials"]); err != nil {
			return fmt.Errorf("fetch the binding: %d %s: %w", r.Status, r.Raw, err)
		}
		w.TellBinding(*b)
	}
	db, err := leaked.Open()
	if err != nil {
		return err
	}
	defer db.Close()
	if db.PingContext(ctx) == nil || leaked == x.Binding.Credentials {
		return errors.New("the old password still works")
	}
	return nil
}
