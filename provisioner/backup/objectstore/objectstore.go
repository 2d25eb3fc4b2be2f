// Package objectstore keeps objects, whole, under names with slashes: in a bucket of an S3 service, or in a directory.
package objectstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
)

// ErrNotFound is returned if there is no object of that name.
var ErrNotFound = errors.New("there is no such object")

// ErrExists is returned by Create if there is an object of that name.
var ErrExists = errors.New("the object exists already")

// Store keeps objects. It is safe for concurrent use. Errors name the store and the object, and never a secret.
type Store interface {
	// Put writes an object. If there is one of that name, it is replaced.
	Put(ctx context.Context, name string, data []byte) error

	// Create writes an object, unless there is one of that name: then it returns ErrExists.
	Create(ctx context.Context, name string, data []byte) error

	// Get reads an object. One of more than max bytes is an error.
	Get(ctx context.Context, name string, max int64) ([]byte, error)

	// List calls fn with the names of all objects that begin with a prefix, in any order, and of what is Unfinished.
	List(ctx context.Context, prefix string, fn func(name string) error) error

	// Delete deletes an object. If there is none, it does nothing.
	Delete(ctx context.Context, name string) error

	// String is where the objects are, for people, without secrets.
	String() string
}

// unfinished begins the name of an object that is being written.
const unfinished = ".unfinished-"

// Unfinished reports whether a name is that of an object that is being written, or whose writer was killed.
func Unfinished(name string) bool { return strings.HasPrefix(path.Base(name), unfinished) }

// probeTime limits a probe.
const probeTime = 30 * time.Second

// Probe returns an error unless a small object can be written, read and deleted.
func Probe(ctx context.Context, s Store) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	name, content := "probe-"+strings.ToLower(rand.Text()), []byte("mysql-broker")
	if err := s.Put(ctx, name, content); err != nil {
		return err
	}
	read, err := s.Get(ctx, name, int64(len(content)))
	if err == nil && !bytes.Equal(read, content) {
		err = explain(s, "read", name, errors.New("it is not what was written"))
	}
	return errors.Join(err, s.Delete(ctx, name))
}

func explain(s Store, doing, name string, err error) error {
	if err == nil {
		return nil
	}
	if skewed(err) {
		err = fmt.Errorf("its clock and that of this host, at %s, are too far apart: set the one that is wrong: %w",
			time.Now().UTC().Format(time.RFC3339), err)
	}
	return fmt.Errorf("object store %s: %s %s: %w", s, doing, name, err)
}

// ErrTooLarge says that an object has more bytes than were written.
var ErrTooLarge = errors.New("it is larger than what was written")
