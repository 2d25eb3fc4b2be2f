// Package backup writes backups of databases to an object store, and reads them. A backup is SQL, compressed and
// encrypted, in objects of some MiB, and a manifest, which is written last. docs/backups.md describes the format.
//
// Each backup has its own key, which the broker's keyset encrypts. Nobody without the keyset can read a backup, change
// it, or pass it off as one of another service instance or tenant.
package backup

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"mysql-broker/provisioner/backup/objectstore"
)

// Keys encrypt the keys of backups. See store.Keyring.
type Keys interface {
	Wrap(key, what []byte) ([]byte, error)
	Unwrap(wrapped, what []byte) ([]byte, error)
	Current(wrapped []byte) bool
}

// Vault is where backups are.
type Vault struct {
	Objects objectstore.Store
	Keys    Keys
}

// ErrNotFound says that there is no such backup, or that it was not completed.
var ErrNotFound = errors.New("there is no such backup")

// DamagedError says that a backup is not what was written.
type DamagedError struct {
	Object string
	Err    error
}

func (e *DamagedError) Error() string { return fmt.Sprintf("%s is damaged: %v", e.Object, e.Err) }
func (e *DamagedError) Unwrap() error { return e.Err }

// plainID matches ids that are names of directories as they are.
var plainID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// folder returns the prefix of the names of a backup's objects.
func folder(instanceID, id string) string {
	if !plainID.MatchString(instanceID) {
		sum := sha256.Sum256([]byte(instanceID))
		instanceID = "_" + strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
	}
	return instanceID + "/" + id + "/"
}

// Delete deletes a backup, its manifest first, so that what is left after a failure is none. It may be called again.
func (v Vault) Delete(ctx context.Context, instanceID, id string) error {
	if err := v.Objects.Delete(ctx, folder(instanceID, id)+manifestName); err != nil {
		return err
	}
	return v.clear(ctx, instanceID, id)
}

func (v Vault) clear(ctx context.Context, instanceID, id string) error {
	var names []string
	err := v.Objects.List(ctx, folder(instanceID, id), func(name string) error {
		names = append(names, name)
		return nil
	})
	for _, name := range names {
		if err == nil {
			err = v.Objects.Delete(ctx, name)
		}
	}
	return err
}
