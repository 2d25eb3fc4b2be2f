// Package dumps keeps dumps of databases in memory.
package dumps

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"mysql-broker/provisioner/transfer"
)

// Dump is a database's contents, for transfer.Load.
type Dump struct {
	Schema transfer.Schema
	Parts  []transfer.Part
}

// Of dumps a database. What describes it passes through JSON, as in a backup.
func Of(ctx context.Context, from transfer.Source, o transfer.Options) (d Dump, err error) {
	var mu sync.Mutex
	schema, err := transfer.Dump(ctx, from, o, func() transfer.Output { return &output{mu: &mu, to: &d.Parts} })
	if err != nil {
		return d, err
	}
	d.Schema, err = reread(schema)
	return d, err
}

func reread[T any](written T) (read T, err error) {
	raw, err := json.Marshal(written)
	if err != nil {
		return read, err
	}
	return read, json.Unmarshal(raw, &read)
}

// output makes a part of each chunk.
type output struct {
	mu         *sync.Mutex // of to
	to         *[]transfer.Part
	statements [][]byte
}

func (o *output) Insert(_ context.Context, statement []byte) error {
	o.statements = append(o.statements, bytes.Clone(statement))
	return nil
}

func (o *output) EndChunk(_ context.Context, c transfer.Chunk) error {
	c, err := reread(c)
	if err != nil {
		return err
	}
	statements := o.statements
	o.statements = nil
	o.mu.Lock()
	defer o.mu.Unlock()
	*o.to = append(*o.to, transfer.Part{Chunks: []transfer.Chunk{c},
		Read: func(_ context.Context, fn func(int, []byte) error) error {
			for _, s := range statements {
				if err := fn(0, s); err != nil {
					return err
				}
			}
			return nil
		}})
	return nil
}

func (o *output) Close(context.Context) error { return nil }
