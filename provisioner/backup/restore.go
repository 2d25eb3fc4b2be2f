package backup

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"mysql-broker/provisioner/transfer"
)

// Restore makes the target what a backup has, and compares every chunk with the sums of its manifest. It may be called
// again after an interruption. An error of the object store or of the backup is a *transfer.SourceError.
func (v Vault) Restore(ctx context.Context, m Manifest, to transfer.Target, o transfer.Options) error {
	schema, err := v.Schema(ctx, m)
	if err != nil {
		return err
	}
	parts := make([]transfer.Part, len(m.Parts))
	for n, p := range m.Parts {
		parts[n] = transfer.Part{Chunks: p.Chunks, Read: func(ctx context.Context, fn func(int, []byte) error) error {
			for _, object := range p.Objects {
				release, err := hold(ctx, p, object, o, timesInLoad)
				if err != nil {
					return err
				}
				err = v.readStatements(ctx, m, object, fn)
				release()
				if err != nil {
					return err
				}
			}
			return nil
		}}
	}
	return transfer.Load(ctx, schema, parts, to, o)
}

// timesInLoad is how often a statement is in memory: as it is read, as a string for the driver, and in its packet.
const timesInLoad = 3

// hold waits for the memory for an object, if it is large, and for its longest statement, if that is long.
func hold(ctx context.Context, p part, o object, options transfer.Options, times int64) (release func(), err error) {
	if options.Reserve == nil {
		return func() {}, nil
	}
	bytes := times * o.Longest
	if o.Longest <= longStatement {
		bytes = 0
	}
	if o.Bytes > 2*objectBytes {
		bytes += o.Bytes
	}
	if bytes == 0 {
		return func() {}, nil
	}
	var tables []string
	for _, k := range p.Chunks {
		if !slices.Contains(tables, k.Table) {
			tables = append(tables, k.Table)
		}
	}
	release, err = options.Reserve(ctx, bytes)
	return release, transfer.RefuseLong(err, max(o.Longest, o.Bytes), tables...)
}

// Schema reads the definitions in a backup. Its errors are those of Restore.
func (v Vault) Schema(ctx context.Context, m Manifest) (s transfer.Schema, err error) {
	err = v.read(ctx, m, m.Schema, func(r io.Reader) error { return json.NewDecoder(r).Decode(&s) })
	if err != nil {
		return s, &transfer.SourceError{Err: err}
	}
	return s, nil
}

// Check reads all objects of a backup, and returns an error unless they are as they were written. It calls o.Alive
// before each object, and reports progress in objects.
func (v Vault) Check(ctx context.Context, m Manifest, o transfer.Options) error {
	all := slices.Concat([]part{{Objects: []object{m.Schema}}}, m.Parts)
	var done, total uint64
	for _, p := range all {
		total += uint64(len(p.Objects))
	}
	for _, p := range all {
		for _, object := range p.Objects {
			if err := o.Alive(); err != nil {
				return err
			}
			release, err := hold(ctx, p, object, o, 0)
			if err != nil {
				return err
			}
			err = v.read(ctx, m, object, func(r io.Reader) error {
				_, err := io.Copy(io.Discard, r)
				if err != nil {
					err = &DamagedError{folder(m.InstanceID, m.ID) + object.Name, err}
				}
				return err
			})
			release()
			if err != nil {
				return err
			}
			done++
			o.Progress(done, total)
		}
	}
	return nil
}

// readStatements calls fn with the statements in an object.
func (v Vault) readStatements(ctx context.Context, m Manifest, o object, fn func(int, []byte) error) error {
	var statement []byte
	return v.eachStatement(ctx, m, o, func(chunk int, length int64, in io.Reader) error {
		statement = slices.Grow(statement[:0], int(length))[:length]
		if _, err := io.ReadFull(in, statement); err != nil {
			return &DamagedError{folder(m.InstanceID, m.ID) + o.Name, err}
		}
		return fn(chunk, statement)
	})
}

// eachStatement calls fn with the chunk and the length of each statement in an object. fn reads the statement from in.
func (v Vault) eachStatement(ctx context.Context, m Manifest, o object,
	fn func(chunk int, length int64, in io.Reader) error) error {
	damaged := func(err error) error { return &DamagedError{folder(m.InstanceID, m.ID) + o.Name, err} }
	return v.read(ctx, m, o, func(r io.Reader) error {
		in := bufio.NewReaderSize(r, 64<<10)
		for {
			line, err := in.ReadString('\n')
			if errors.Is(err, io.EOF) && line == "" {
				return nil
			}
			if err != nil {
				return damaged(err)
			}
			var chunk int
			var length int64
			if _, err := fmt.Sscanf(line, "-- chunk %d, %d bytes\n", &chunk, &length); err != nil || length < 0 {
				return damaged(errors.New("no statement begins where one should"))
			}
			if err := fn(chunk, length, in); err != nil {
				return err
			}
			if _, err := in.Discard(len(";\n")); err != nil {
				return damaged(err)
			}
		}
	})
}
