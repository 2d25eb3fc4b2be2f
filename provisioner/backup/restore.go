package backup

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"mysql-broker/provisioner/transfer"
)

// Restore makes the target what a backup has, and compares every chunk with the sums of its manifest. It may be called
// again after an interruption. An error of the object store or of the backup is a *transfer.SourceError.
func (v Vault) Restore(ctx context.Context, m Manifest, to transfer.Target, o transfer.Options) error {
	var schema transfer.Schema
	err := v.read(ctx, m, m.Schema, func(r io.Reader) error { return json.NewDecoder(r).Decode(&schema) })
	if err != nil {
		return &transfer.SourceError{Err: err}
	}
	if schema.Version == "" {
		schema.Version = m.Version
	}
	parts := make([]transfer.Part, len(m.Parts))
	for n, p := range m.Parts {
		parts[n] = transfer.Part{Chunks: p.Chunks, Read: func(ctx context.Context, fn func(int, []byte) error) error {
			for _, o := range p.Objects {
				if err := v.readStatements(ctx, m, o, fn); err != nil {
					return err
				}
			}
			return nil
		}}
	}
	return transfer.Load(ctx, schema, parts, to, o)
}

// Check reads all objects of a backup, and returns an error unless they are as they were written. It calls alive before
// each object, and reports progress in objects.
func (v Vault) Check(ctx context.Context, m Manifest, alive func() error, progress func(done, total uint64)) error {
	all := []object{m.Schema}
	for _, p := range m.Parts {
		all = append(all, p.Objects...)
	}
	for n, o := range all {
		if err := alive(); err != nil {
			return err
		}
		if err := v.read(ctx, m, o, func(r io.Reader) error {
			_, err := io.Copy(io.Discard, r)
			if err != nil {
				err = &DamagedError{folder(m.InstanceID, m.ID) + o.Name, err}
			}
			return err
		}); err != nil {
			return err
		}
		progress(uint64(n+1), uint64(len(all))) // #nosec G115 -- lengths are not negative
	}
	return nil
}

// readStatements calls fn with the statements in an object.
func (v Vault) readStatements(ctx context.Context, m Manifest, o object, fn func(int, []byte) error) error {
	damaged := func(err error) error { return &DamagedError{folder(m.InstanceID, m.ID) + o.Name, err} }
	return v.read(ctx, m, o, func(r io.Reader) error {
		in := bufio.NewReaderSize(r, 64<<10)
		var statement []byte
		for {
			line, err := in.ReadString('\n')
			if errors.Is(err, io.EOF) && line == "" {
				return nil
			}
			if err != nil {
				return damaged(err)
			}
			var chunk, length int
			if _, err := fmt.Sscanf(line, "-- chunk %d, %d bytes\n", &chunk, &length); err != nil || length < 0 {
				return damaged(errors.New("no statement begins where one should"))
			}
			if cap(statement) < length+2 {
				statement = make([]byte, length+2)
			}
			statement = statement[:length+2]
			if _, err := io.ReadFull(in, statement); err != nil {
				return damaged(err)
			}
			if err := fn(chunk, statement[:length]); err != nil {
				return err
			}
		}
	})
}
