package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// deleteTime limits the deletion of a temporary key by an interrupted client.
const deleteTime = time.Minute

// withLogin runs fn with the credentials of the named key, or of a temporary key of a role, which it always deletes
// afterwards.
func (s *session) withLogin(ctx context.Context, name, purpose, role string, fn func(login) error) (err error) {
	if s.useKey != "" {
		a, err := s.binding(ctx, name, s.useKey)
		if err != nil {
			return err
		}
		l, err := readLogin(a)
		if err != nil {
			return err
		}
		return fn(l)
	}
	keyName := purpose + "-" + uuid.NewString()[:8]
	defer func() {
		err = errors.Join(err, s.deleteTemporary(ctx, name, keyName))
	}()
	parameters, _ := json.Marshal(map[string]string{"role": role}) // a map of strings always encodes
	a, err := s.bind(ctx, name, keyName, parameters)
	if err != nil {
		if ctx.Err() != nil {
			return errInterrupted
		}
		return fmt.Errorf("a key to %s with cannot be made; --key names one to use: %w", purpose, err)
	}
	l, err := readLogin(a)
	if err != nil {
		return err
	}
	return fn(l)
}

// deleteTemporary deletes a key that may exist, even in an interrupted client, because the response may have been lost.
func (s *session) deleteTemporary(ctx context.Context, name, keyName string) error {
	if in, err := s.inventory.instance(name); err != nil || in.Keys[keyName] == nil {
		return nil // the broker has refused it
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTime)
	defer cancel()
	if err := s.unbind(ctx, name, keyName); err != nil {
		return fmt.Errorf("the temporary key is left: `mysql-broker client delete-service-key %s %s` deletes it: %w",
			name, keyName, err)
	}
	return nil
}

func readLogin(a *response) (login, error) {
	var binding struct {
		Credentials login `json:"credentials"`
	}
	if err := a.decode(&binding); err != nil {
		return login{}, err
	}
	l := binding.Credentials
	if l.Host == "" || l.Port == 0 || l.Username == "" || l.Database == "" {
		return login{}, errors.New("the key's credentials lack host, port, username or database: " +
			"they are not those of a database")
	}
	return l, nil
}
