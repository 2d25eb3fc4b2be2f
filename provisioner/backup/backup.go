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
	"slices"
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
	return v.remove(ctx, instanceID, id, manifestName)
}

// remove deletes a folder. The document without which nothing else can be read is deleted first and last, because a
// Rewrap may have written it meanwhile.
func (v Vault) remove(ctx context.Context, instanceID, id, document string) error {
	document = folder(instanceID, id) + document
	err := v.Objects.Delete(ctx, document)
	if err == nil {
		err = v.clear(ctx, instanceID, id)
	}
	if err == nil {
		err = v.Objects.Delete(ctx, document)
	}
	return err
}

func (v Vault) clear(ctx context.Context, instanceID, id string) error {
	names, err := v.list(ctx, folder(instanceID, id))
	for _, name := range names {
		if err == nil {
			err = v.Objects.Delete(ctx, name)
		}
	}
	return err
}

// names lists the objects whose names begin with a prefix.
func (v Vault) names(ctx context.Context, prefix string) ([]string, error) {
	names, err := v.list(ctx, prefix)
	return slices.DeleteFunc(names, objectstore.Unfinished), err
}

// list lists unfinished objects, too.
func (v Vault) list(ctx context.Context, prefix string) (names []string, err error) {
	err = v.Objects.List(ctx, prefix, func(name string) error {
		names = append(names, name)
		return nil
	})
	return names, err
}
