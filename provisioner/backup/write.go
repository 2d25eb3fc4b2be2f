package backup

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"mysql-broker/provisioner/backup/objectstore"
	"mysql-broker/provisioner/transfer"
)

// Write writes a backup of a database, with the facts of about, and returns its manifest. If the backup is complete
// already, Write only returns the manifest. It deletes what an interrupted Write of the same backup has left.
func (v Vault) Write(ctx context.Context, about Manifest, from transfer.Source, o transfer.Options) (Manifest, error) {
	there, err := v.whole(ctx, about.InstanceID, about.ID)
	if !errors.Is(err, ErrNotFound) {
		return there, err
	}
	if err := v.clear(ctx, about.InstanceID, about.ID); err != nil {
		return about, err
	}
	about.key = newKey()
	w := &writing{vault: v, attempt: strings.ToLower(rand.Text()[:8]), alive: o.Alive, manifest: about}
	schema, err := transfer.Dump(ctx, from, o, func() transfer.Output { return &worker{writing: w} })
	if err == nil {
		err = w.writeSchema(ctx, schema)
	}
	if err != nil {
		return about, err
	}
	return w.finish(ctx)
}

// whole returns the manifest of a backup. It returns ErrNotFound if there is none, or not all objects of the backup are
// there: a worker that was paused before it wrote the manifest may have done so after another one deleted its objects.
func (v Vault) whole(ctx context.Context, instanceID, id string) (Manifest, error) {
	m, err := v.Manifest(ctx, instanceID, id)
	if err != nil {
		return m, err
	}
	names, err := v.names(ctx, folder(instanceID, id))
	slices.Sort(names)
	missing := func(o object) bool {
		_, found := slices.BinarySearch(names, folder(instanceID, id)+o.Name)
		return !found
	}
	if err == nil && (missing(m.Schema) ||
		slices.ContainsFunc(m.Parts, func(p part) bool { return slices.ContainsFunc(p.Objects, missing) })) {
		err = ErrNotFound
	}
	return m, err
}

// writing is a backup that is being written.
type writing struct {
	vault   Vault
	attempt string // in the names of its objects, which no other attempt overwrites
	alive   func() error

	mu       sync.Mutex
	manifest Manifest
	objects  int
}

// lateTime limits the deletion of an object that was written too late.
const lateTime = 10 * time.Second

// put writes an object of the backup. If the lease is lost when it is written, it is deleted again: another worker may
// have deleted the others already, and nobody would delete this one.
func (w *writing) put(ctx context.Context, name string, data []byte) (object, error) {
	if err := w.alive(); err != nil {
		return object{}, err
	}
	o := describe(name, data)
	w.mu.Lock()
	w.manifest.Bytes += o.Bytes
	w.mu.Unlock()
	name = folder(w.manifest.InstanceID, w.manifest.ID) + name
	err := w.vault.Objects.Put(ctx, name, data)
	if lost := w.alive(); lost != nil {
		deleting, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateTime)
		defer cancel()
		return o, errors.Join(lost, w.vault.Objects.Delete(deleting, name))
	}
	return o, err
}

func (w *writing) place(name string) []byte { return place(w.manifest.InstanceID, w.manifest.ID, name) }

// nextName names an object with rows.
func (w *writing) nextName() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objects++
	return fmt.Sprintf("data-%s-%06d.sql.zst.enc", w.attempt, w.objects)
}

func (w *writing) writeSchema(ctx context.Context, schema transfer.Schema) error {
	name := "schema-" + w.attempt + ".json.zst.enc"
	data, err := sealAll(w.manifest.key, w.place(name), schema)
	if err != nil {
		return err
	}
	w.manifest.Tables = len(schema.Tables)
	w.manifest.Schema, err = w.put(ctx, name, data)
	return err
}

// finish writes the manifest. If another worker was faster, its backup is the one that counts.
func (w *writing) finish(ctx context.Context) (Manifest, error) {
	m := w.manifest
	m.FinishedAt = time.Now().UTC().Truncate(time.Millisecond)
	raw, err := json.Marshal(m)
	if err != nil {
		return m, err
	}
	sealed, err := w.vault.seal(raw, m.key)
	if err != nil {
		return m, err
	}
	if err := w.alive(); err != nil {
		return m, err
	}
	name := folder(m.InstanceID, m.ID) + manifestName
	err = w.vault.Objects.Create(ctx, name, sealed)
	if !errors.Is(err, objectstore.ErrExists) {
		return m, err
	}
	there, err := w.vault.whole(ctx, m.InstanceID, m.ID)
	if errors.Is(err, ErrNotFound) {
		return m, w.vault.Objects.Put(ctx, name, sealed)
	}
	return there, err
}

// worker writes parts. It implements transfer.Output.
type worker struct {
	*writing
	sealer *sealer
	name   string // of the object that is being filled, "" for none
	part   part
	plain  int64 // bytes of SQL in the part

	longest int64 // the longest statement in the object
}

// Insert writes a statement after a comment that names its chunk and its length. So a mysql client can read the object,
// and a reader need not know SQL.
func (w *worker) Insert(ctx context.Context, statement []byte) (err error) {
	if w.sealer == nil {
		if w.sealer, err = newSealer(w.manifest.key); err != nil {
			return err
		}
	}
	if w.name == "" {
		w.name = w.nextName()
		if err := w.sealer.begin(w.place(w.name)); err != nil {
			return err
		}
		w.sealer.buffer.Grow(objectBytes + 2*segmentBytes) // what the largest takes; doubling would end at 8 MiB
	}
	w.plain += int64(len(statement))
	w.longest = max(w.longest, int64(len(statement)))
	if len(statement) > objectBytes { // to grow by and by would take more memory than reserved
		w.sealer.buffer.Grow(len(statement))
	}
	_, err = fmt.Fprintf(w.sealer, "-- chunk %d, %d bytes\n", len(w.part.Chunks), len(statement))
	if err == nil {
		_, err = w.sealer.Write(statement)
	}
	if err == nil {
		_, err = w.sealer.Write([]byte(";\n"))
	}
	if err != nil || !w.sealer.full() {
		return err
	}
	return w.endObject(ctx)
}

func (w *worker) endObject(ctx context.Context) error {
	if w.name == "" {
		return nil
	}
	data, err := w.sealer.end()
	if err != nil {
		return err
	}
	o, err := w.put(ctx, w.name, data)
	o.Longest = w.longest
	w.part.Objects, w.name, w.longest = append(w.part.Objects, o), "", 0
	if w.sealer.buffer.Cap() > 4*objectBytes { // the memory is reserved for this chunk only
		w.sealer.buffer = bytes.Buffer{}
	}
	return err
}

// EndChunk ends the part if it is large enough.
func (w *worker) EndChunk(ctx context.Context, c transfer.Chunk) error {
	w.part.Chunks = append(w.part.Chunks, c)
	if w.plain < partBytes {
		return nil
	}
	return w.endPart(ctx)
}

func (w *worker) endPart(ctx context.Context) error {
	if err := w.endObject(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.part.Chunks {
		var rows int64
		if _, err := fmt.Sscan(c.Sum, &rows); err != nil {
			return fmt.Errorf("the sum %q of table %s: %w", c.Sum, c.Table, err)
		}
		w.manifest.Rows += rows
	}
	w.manifest.SQLBytes += w.plain
	w.manifest.Parts = append(w.manifest.Parts, w.part)
	w.part, w.plain = part{}, 0
	return nil
}

// Close ends the last part.
func (w *worker) Close(ctx context.Context) error {
	if len(w.part.Chunks) == 0 {
		return nil
	}
	return w.endPart(ctx)
}
