package recovery

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"mysql-broker/provisioner/inventory"
)

// loginsAtOnce is how many logins with recorded passwords are tried at the same time.
const loginsAtOnce = 8

// comparePasswords finds bindings whose accounts got other passwords after the backup. Nothing is done about them:
// applications have the new ones. An account that was kept when its binding was deleted has another one too.
func (r *recovery) comparePasswords(ctx context.Context) {
	var mu sync.Mutex
	var trying errgroup.Group
	trying.SetLimit(loginsAtOnce)
	for _, of := range r.usable {
		trying.Go(func() error {
			if !r.replacedPassword(ctx, of) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			r.add(Item{Action: Look, Kind: "password", Server: of.Instance.Server, Name: of.Account,
				InstanceID: of.InstanceID, BindingID: of.BindingID, Why: "it was replaced after the backup, or the binding " +
					"was deleted and a view needs its account. If the platform has the binding, it gets the earlier password: " +
					"run mysql-broker rotate-bindings --apply --instance " + of.InstanceID +
					" when its applications can be restarted or bound again"})
			return nil
		})
	}
	_ = trying.Wait() // none fails
}

// replacedPassword reports whether the server refuses the recorded password of an account that can log in.
func (r *recovery) replacedPassword(ctx context.Context, of inventory.Account) bool {
	i, err := r.Store.Instances.Get(ctx, of.InstanceID)
	if err != nil || i.Location != of.Instance.Location {
		return false
	}
	b, err := r.Store.Bindings.Get(ctx, of.InstanceID, of.BindingID)
	return err == nil && r.Fleet.RefusesPassword(ctx, i, b)
}
