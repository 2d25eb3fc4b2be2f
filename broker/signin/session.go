package signin

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"mysql-broker/store"
)

const sessionCookie = "session"

var errNoSession = errors.New("nobody is signed in")

// session has the data of a signed-in person.
type session struct {
	Subject     string `json:"subject"` // the provider's permanent id of the person
	Name        string `json:"name"`
	Operator    bool   `json:"operator,omitempty"`
	AccessToken string `json:"access_token,omitempty"` // for Cloud Controller
	IDToken     string `json:"id_token,omitempty"`     // for the provider's sign-out

	id   string // of its row
	left time.Duration
}

// session returns the session of a request, or errNoSession.
func (s *SignIn) session(r *http.Request) (session, error) {
	key, ok := parseSecret(s.cookies.get(r, sessionCookie))
	if !ok {
		return session{}, errNoSession
	}
	sealed, left, err := s.Store.Sessions.Get(r.Context(), key.derive("row"))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return session{}, errNoSession
	case err != nil:
		return session{}, fmt.Errorf("read the session: %w", err)
	}
	found := session{id: key.text("row"), left: left}
	err = key.open(sealed, &found)
	return found, err
}

// start signs a person in at this browser for some time, and replaces an existing session.
func (s *SignIn) start(w http.ResponseWriter, r *http.Request, made session, lifetime time.Duration) error {
	key := newSecret()
	sealed, err := key.seal(made)
	if err != nil {
		return err
	}
	if err := s.end(r); err != nil {
		return err
	}
	if err := s.Store.Sessions.Insert(r.Context(), key.derive("row"), sealed, lifetime); err != nil {
		return fmt.Errorf("keep the session: %w", err)
	}
	s.cookies.set(w, sessionCookie, key.String(), 0)
	s.Logger.InfoContext(r.Context(), "signed in to the dashboard", "user_id", made.Subject, "operator", made.Operator)
	return nil
}

func (s *SignIn) end(r *http.Request) error {
	key, ok := parseSecret(s.cookies.get(r, sessionCookie))
	if !ok {
		return nil
	}
	if err := s.Store.Sessions.Delete(context.WithoutCancel(r.Context()), key.derive("row")); err != nil {
		return fmt.Errorf("end the session: %w", err)
	}
	return nil
}

// seal encrypts a session with a key that only the browser has.
func (s secret) seal(v session) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode the session: %w", err)
	}
	gcm, err := s.cipher()
	if err != nil {
		return nil, err
	}
	return gcm.Seal(nil, nil, raw, nil), nil // #nosec G407 -- this cipher creates the nonces itself
}

func (s secret) open(sealed []byte, v *session) error {
	gcm, err := s.cipher()
	if err != nil {
		return err
	}
	raw, err := gcm.Open(nil, nil, sealed, nil)
	if err == nil {
		err = json.Unmarshal(raw, v)
	}
	if err != nil {
		return errors.New("the session in PostgreSQL is not what was written there")
	}
	return nil
}

func (s secret) cipher() (cipher.AEAD, error) {
	block, err := aes.NewCipher(s.derive("encryption"))
	if err != nil {
		return nil, fmt.Errorf("make the session's cipher: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}
