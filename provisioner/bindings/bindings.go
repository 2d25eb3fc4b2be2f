// Package bindings creates, replaces and ends the accounts of bindings.
package bindings

import (
	"context"

	"mysql-broker/provisioner/credhub"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// Bindings are the bindings of all instances. Make them with New.
type Bindings struct {
	*steps.Servers

	credHub  *credhub.Client
	document func(Credentials) map[string]any
	expired  chan struct{} // signals that there are expired bindings
}

// New returns the bindings of instances on the servers of a fleet. If credHub is not nil, it keeps what document
// returns of the credentials.
func New(s *steps.Servers, credHub *credhub.Client, document func(Credentials) map[string]any) *Bindings {
	return &Bindings{s, credHub, document, make(chan struct{}, 1)}
}

// Expired says that the account of a binding has come to its end.
func (bs *Bindings) Expired() {
	select {
	case bs.expired <- struct{}{}:
	default:
	}
}

// Kinds are the kinds of tasks about bindings.
var Kinds = map[string]engine.Kind[*Bindings]{
	store.Bind:   bindKind,
	store.Unbind: unbindKind,
	store.Expire: expireKind,
	store.Rotate: rotateKind,
}

// ofBinding finds the workflow of a task on a binding.
func ofBinding(workflow func(*Bindings, store.Instance, store.Binding) task.Workflow) func(context.Context, *Bindings,
	store.Task) (task.Workflow, error) {
	return func(ctx context.Context, bs *Bindings, t store.Task) (task.Workflow, error) {
		i, b, err := bs.BindingTask(ctx, t)
		return workflow(bs, i, b), err
	}
}
