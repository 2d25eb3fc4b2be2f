package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"
	"github.com/google/uuid"
)

func (s *session) createKey(ctx context.Context, args []string) error {
	name, keyName := args[0], args[1]
	in, err := s.inventory.instance(name)
	if err != nil {
		return err
	}
	if k := in.Keys[keyName]; k != nil {
		return fmt.Errorf("service instance %s has a key %s already: %s", name, keyName, k.Last)
	}
	k := &key{GUID: uuid.NewString(), Last: begun(create)}
	w := s.keyWork("Creating", name, keyName, in, k)
	w.refuse = func() error { return s.inventory.removeKey(name, keyName) }
	a, err := s.perform(ctx, w, http.MethodPut, domain.BindDetails{
		ServiceID:     in.Plan.ServiceID,
		PlanID:        in.Plan.ID,
		BindResource:  &domain.BindResource{CredentialClientID: platform},
		RawContext:    instanceContext(name),
		RawParameters: s.parameters,
	})
	if err != nil {
		return err
	}
	if a.status == http.StatusAccepted { // the credentials are not in this response
		return s.key(ctx, args)
	}
	return s.printBinding(a)
}

// key fetches a key's credentials from the broker, because the client stores none.
func (s *session) key(ctx context.Context, args []string) error {
	in, k, err := s.inventory.key(args[0], args[1])
	if err != nil {
		return err
	}
	a, err := s.broker.send(ctx, http.MethodGet, k.path(in), nil, nil)
	if err != nil {
		return err
	}
	return s.printBinding(a)
}

func (s *session) deleteKey(ctx context.Context, args []string) error {
	name, keyName := args[0], args[1]
	if err := s.unbind(ctx, name, keyName); err != nil {
		return err
	}
	return s.report("Deleted key "+keyName+" of service instance "+name, map[string]string{"deleted": keyName})
}

func (s *session) unbind(ctx context.Context, name, keyName string) error {
	in, k, err := s.inventory.key(name, keyName)
	if err != nil {
		return err
	}
	before := k.Last
	k.Last = begun(remove)
	w := s.keyWork("Deleting", name, keyName, in, k)
	w.refuse = func() error {
		k.Last = before
		return s.inventory.putKey(name, keyName, k)
	}
	_, err = s.perform(ctx, w, http.MethodDelete, nil)
	return err
}

func (s *session) keyWork(verb, name, keyName string, in *instance, k *key) work {
	return work{
		title: verb + " key " + keyName + " of service instance " + name,
		path:  k.path(in),
		plan:  in.Plan,
		op:    &k.Last,
		save: func() error {
			if k.Last.Kind == remove && k.Last.State == domain.Succeeded {
				return s.inventory.removeKey(name, keyName)
			}
			return s.inventory.putKey(name, keyName, k)
		},
	}
}

func (k *key) path(in *instance) string {
	return in.path() + "/service_bindings/" + url.PathEscape(k.GUID)
}

func (s *session) printBinding(a *response) error {
	if s.json {
		return s.printJSON(json.RawMessage(a.body))
	}
	var binding apiresponses.BindingResponse
	if err := a.decode(&binding); err != nil {
		return err
	}
	return s.printJSON(binding.Credentials)
}
