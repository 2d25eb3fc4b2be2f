package backup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"time"

	"mysql-broker/provisioner/backup/objectstore"
	"mysql-broker/provisioner/transfer"
)

const (
	manifestName = "manifest.json"
	Format       = 1         // of backups that this release writes, and the only one that it reads
	maxManifest  = 256 << 20 // bytes
)

// Manifest describes a complete backup.
type Manifest struct {
	ID           string    `json:"id"`
	InstanceID   string    `json:"instance_id"`
	InstanceName string    `json:"instance_name,omitempty"`
	ServiceID    string    `json:"service_id"`
	PlanID       string    `json:"plan_id"`
	Platform     string    `json:"platform,omitempty"`
	Organization string    `json:"organization_guid,omitempty"`
	Space        string    `json:"space_guid,omitempty"`
	Reason       string    `json:"reason"`
	Flavour      string    `json:"flavour"` // MySQL or MariaDB
	Version      string    `json:"version"` // of the server
	Broker       string    `json:"broker,omitempty"`
	TakenAt      time.Time `json:"taken_at"`    // the data is not older than this, by PostgreSQL's clock
	FinishedAt   time.Time `json:"finished_at"` // by the clock of the broker's host
	KeepUntil    time.Time `json:"keep_until"`

	DataBytes int64 `json:"data_bytes"` // of the database, as the server measured it
	Tables    int   `json:"tables"`
	Rows      int64 `json:"rows"`
	SQLBytes  int64 `json:"sql_bytes"`
	Bytes     int64 `json:"bytes"` // of all objects

	// BinaryLog is nil if the server's binary logs are not archived.
	BinaryLog *Mark `json:"binary_log,omitempty"`

	Schema object `json:"schema"`
	Parts  []part `json:"parts"`

	key []byte
}

// part is some chunks of tables, and the objects with the statements that insert their rows.
type part struct {
	Objects []object         `json:"objects"`
	Chunks  []transfer.Chunk `json:"chunks"`
}

// object is an object of a backup.
type object struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Longest is the length of its longest statement, in bytes; 0 for the schema.
	Longest int64 `json:"longest,omitempty"`
}

// envelope is the contents of the manifest's object. The key is bound to the bytes of the manifest.
type envelope struct {
	Format   int             `json:"format"`
	Key      []byte          `json:"key"` // encrypted by the broker's keyset
	Manifest json.RawMessage `json:"manifest"`
}

// boundTo is the associated data with which the key of a backup is encrypted: the key cannot be decrypted once the
// manifest was changed by somebody without the keyset.
func boundTo(manifest []byte) []byte {
	sum := sha256.Sum256(manifest)
	return append([]byte("backup manifest "), sum[:]...)
}

// seal returns the contents of the manifest's object, with the key encrypted.
func (v Vault) seal(manifest json.RawMessage, key []byte) ([]byte, error) {
	wrapped, err := v.Keys.Wrap(key, boundTo(manifest))
	if err != nil {
		return nil, fmt.Errorf("encrypt the key of a backup: %w", err)
	}
	return json.Marshal(envelope{Format, wrapped, manifest})
}

// Manifest reads and verifies the manifest of a backup. It returns ErrNotFound if there is none.
func (v Vault) Manifest(ctx context.Context, instanceID, id string) (m Manifest, err error) {
	m, _, err = v.manifest(ctx, folder(instanceID, id)+manifestName)
	return m, err
}

func (v Vault) manifest(ctx context.Context, name string) (m Manifest, e envelope, err error) {
	e, m.key, err = v.open(ctx, name, &m)
	if err == nil && name != folder(m.InstanceID, m.ID)+manifestName {
		err = &DamagedError{name, errors.New("it is that of another backup")}
	}
	return m, e, err
}

// open reads an envelope, the key in it, and what the key is bound to.
func (v Vault) open(ctx context.Context, name string, into any) (e envelope, key []byte, err error) {
	raw, err := v.Objects.Get(ctx, name, maxManifest)
	if errors.Is(err, objectstore.ErrNotFound) {
		return e, nil, ErrNotFound
	}
	if errors.Is(err, objectstore.ErrTooLarge) {
		return e, nil, &DamagedError{name, err}
	}
	if err != nil {
		return e, nil, err
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, nil, &DamagedError{name, err}
	}
	if e.Format != Format {
		return e, nil, fmt.Errorf("%s has the format %d, and this release reads %d", name, e.Format, Format)
	}
	key, err = v.Keys.Unwrap(e.Key, boundTo(e.Manifest))
	if err != nil {
		return e, nil, &DamagedError{name, errors.New("it was changed, or ENCRYPTION_KEYSET lacks the key with which it " +
			"was written")}
	}
	if err := json.Unmarshal(e.Manifest, into); err != nil {
		return e, nil, &DamagedError{name, err}
	}
	return e, key, nil
}

// Each calls fn with the manifests of all backups in the object store, or with the error of one that cannot be read. A
// manifest alone is no backup: each has a schema. Last, it calls fn with the ids and folders of what has neither a
// manifest nor a log, and ErrUnfinished: it is being written or deleted, or a broker that was killed or paused has left
// it.
func (v Vault) Each(ctx context.Context, fn func(object string, m Manifest, err error) error) error {
	all, err := v.folders(ctx)
	if err == nil {
		err = eachDocument(ctx, all, manifestName, v.manifest, fn)
	}
	for _, in := range all {
		if err == nil && in.document == "" {
			err = fn(in.folder, Manifest{ID: path.Base(in.folder)}, ErrUnfinished)
		}
	}
	return err
}

// ErrUnfinished says that objects have neither a manifest nor a log.
var ErrUnfinished = errors.New("there is no manifest and no log")

// contents are the objects in a folder.
type contents struct {
	folder   string
	document string // the name of the manifest or log, "" for none
	others   bool   // there are other objects, unfinished ones apart
}

// manifestAlone reports whether a folder has nothing but a manifest, which is no backup.
func (c contents) manifestAlone() bool { return path.Base(c.document) == manifestName && !c.others }

var inFolder = regexp.MustCompile("^([^/]+/[bl]_[^/]+/)(.+)$")

// folders lists the folders of all backups and logs. It keeps no names of other objects: there may be millions.
func (v Vault) folders(ctx context.Context) ([]contents, error) {
	all := map[string]contents{}
	err := v.Objects.List(ctx, "", func(name string) error {
		if in := inFolder.FindStringSubmatch(name); in != nil {
			c := all[in[1]]
			c.folder = in[1]
			if in[2] == manifestName || in[2] == logName {
				c.document = name
			} else if !objectstore.Unfinished(name) {
				c.others = true
			}
			all[c.folder] = c
		}
		return nil
	})
	return slices.SortedFunc(maps.Values(all), func(a, b contents) int { return cmp.Compare(a.folder, b.folder) }), err
}

func eachDocument[Document any](ctx context.Context, all []contents, called string,
	read func(context.Context, string) (Document, envelope, error), fn func(string, Document, error) error) error {
	for _, in := range all {
		if path.Base(in.document) != called || in.manifestAlone() {
			continue
		}
		d, _, err := read(ctx, in.document)
		if errors.Is(err, ErrNotFound) { // deleted meanwhile
			continue
		}
		if err := fn(in.document, d, err); err != nil {
			return err
		}
	}
	return nil
}

// Current reports whether a backup is in the object store, and its key encrypted with the keyset's primary key.
func (v Vault) Current(ctx context.Context, instanceID, id string) (bool, error) {
	_, e, err := v.manifest(ctx, folder(instanceID, id)+manifestName)
	return v.current(e, err)
}

// CurrentLog is Current for a log.
func (v Vault) CurrentLog(ctx context.Context, instanceID, id string) (bool, error) {
	_, e, err := v.log(ctx, folder(instanceID, id)+logName)
	return v.current(e, err)
}

func (v Vault) current(e envelope, err error) (bool, error) {
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil && v.Keys.Current(e.Key), err
}

// Rewrap encrypts again the keys of all backups and logs that are not encrypted with the keyset's primary key. It
// returns how many there were. It goes on after one that cannot be read.
func (v Vault) Rewrap(ctx context.Context) (rewrapped int, err error) {
	all, err := v.folders(ctx)
	var failed error
	for _, in := range all {
		if err != nil {
			break
		}
		if in.document == "" {
			continue
		}
		e, key, unread := v.keyOf(ctx, in.document)
		switch {
		case errors.Is(unread, ErrNotFound): // deleted meanwhile
		case unread != nil:
			failed = errors.Join(failed, unread)
		case !v.Keys.Current(e.Key):
			var there bool
			if there, err = v.rewrap(ctx, in.document, e, key); there {
				rewrapped++
			}
		case in.manifestAlone():
			_, err = v.deleteAlone(ctx, in.document)
		}
	}
	return rewrapped, errors.Join(err, failed)
}

func (v Vault) rewrap(ctx context.Context, name string, e envelope, key []byte) (there bool, err error) {
	sealed, err := v.seal(e.Manifest, key)
	if err != nil {
		return false, err
	}
	return v.replace(ctx, name, sealed)
}

// replace writes a manifest or log again, unless it is deleted meanwhile, and reports whether it is there. Not every
// object store can write only what exists. But a deletion ends with this object, so if it was written after that, it is
// the only one left in the folder. If the process ends before that is seen, the next Rewrap deletes a manifest. A log
// stays, as one to which nothing was archived does. Such a log is deleted again once it is imported.
func (v Vault) replace(ctx context.Context, name string, data []byte) (there bool, err error) {
	before, err := v.names(ctx, path.Dir(name)+"/")
	if err != nil || !slices.Contains(before, name) {
		return false, err
	}
	if err := v.Objects.Put(ctx, name, data); err != nil {
		return false, err
	}
	if path.Base(name) == logName && len(before) == 1 { // nothing was archived
		return true, nil
	}
	return v.deleteAlone(ctx, name)
}

// deleteAlone deletes an object that is the only one in its folder, and reports whether it was not. No backup consists
// of its manifest alone: each has a schema.
func (v Vault) deleteAlone(ctx context.Context, name string) (there bool, err error) {
	names, err := v.names(ctx, path.Dir(name)+"/")
	if err == nil && len(names) <= 1 {
		return false, v.Objects.Delete(ctx, name)
	}
	return err == nil, err
}

// keyOf reads the envelope of a manifest or log, and its key.
func (v Vault) keyOf(ctx context.Context, name string) (envelope, []byte, error) {
	if path.Base(name) == logName {
		l, e, err := v.log(ctx, name)
		return e, l.key, err
	}
	m, e, err := v.manifest(ctx, name)
	return e, m.key, err
}
