package dev

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"mysql-broker/provisioner/launcher/process/files"
	"mysql-broker/store"
)

// secrets are generated at the first start and stored, so that the next start can read the data.
type secrets struct {
	Username       string `json:"username"`
	Password       string `json:"password"`
	Keyset         string `json:"keyset"`
	SharedPassword string `json:"shared_password"` // of the administrator of the shared server

	AccountPassword string `json:"shared_account_password"` // of the broker's account there
}

func loadSecrets(path string) (s secrets, err error) {
	raw, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return newSecrets(path)
	case err != nil:
		return s, fmt.Errorf("read the secrets: %w", err)
	}
	if json.Unmarshal(raw, &s) != nil { // the error could quote a secret
		return s, fmt.Errorf("%s is not what an earlier start wrote; remove the state directory to start over", path)
	}
	return s, nil
}

func newSecrets(path string) (s secrets, err error) {
	keyset, err := store.NewKeyset()
	if err != nil {
		return s, err
	}
	s = secrets{Username: newUsername(), Password: rand.Text(), Keyset: keyset, SharedPassword: rand.Text(),
		AccountPassword: rand.Text()}
	return s, s.keep(path)
}

func (s secrets) keep(path string) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := files.Replace(path, raw, 0o600); err != nil {
		return fmt.Errorf("keep the secrets: %w", err)
	}
	return nil
}

// newUsername is short enough to type; only the password must not be guessable.
func newUsername() string { return "broker-" + strings.ToLower(rand.Text()[:6]) }
