package transfer

import (
	"context"
	"database/sql"
)

// Output takes what a worker of Dump reads.
type Output interface {
	// Insert takes a statement that inserts rows of the present chunk. The bytes are valid until it returns.
	Insert(ctx context.Context, statement []byte) error

	// EndChunk says of what table the chunk was, and what it adds up to.
	EndChunk(ctx context.Context, c Chunk) error

	// Close is called after the last chunk, unless the dump has failed.
	Close(ctx context.Context) error
}

// Dump reads a database as it is at one moment. Each of its workers has an output. Options.MaxBytes and Options.Events
// do not apply. Errors of Options.Locked and Options.Described are those of the source.
func Dump(ctx context.Context, from Source, o Options, output func() Output) (Schema, error) {
	o = o.complete()
	taken, err := takeSnapshot(ctx, from, o)
	if err != nil {
		return Schema{}, err
	}
	defer taken.close()
	programs, err := readPrograms(ctx, from, o, &taken.defined)
	if err != nil {
		return Schema{}, err
	}
	if o.Described != nil {
		if err := o.Described(ctx); err != nil {
			return Schema{}, ofSource(err)
		}
	}
	o.Events = true
	if err := programs.check(o); err != nil {
		return Schema{}, err
	}
	d := &dumper{reader{snapshot: taken, options: o}}
	return Schema{taken.version, taken.tables, programs}, d.run(ctx, output)
}

// dumper reads what a snapshot shows.
type dumper struct{ reader }

func (d *dumper) run(ctx context.Context, output func() Output) error {
	return d.eachWorker(ctx, func(ctx context.Context, n int, chunks <-chan chunk) error {
		from, out := d.snapshot.conns[n], output()
		err := d.each(ctx, from, chunks, func(k chunk) (string, error) { return d.dump(ctx, from, k, out) })
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return out.Close(ctx)
	})
}

// dump writes a chunk and returns its checksum. The server sums up the same rows in the same transaction: Load compares
// with what servers say.
func (d *dumper) dump(ctx context.Context, from *sql.Conn, k chunk, out Output) (sum string, err error) {
	if err := d.options.Alive(); err != nil {
		return "", err
	}
	_, release, err := d.options.reserve(ctx, from, k, timesInDump)
	if err != nil {
		return "", err
	}
	defer release()
	var failure error
	err = readRows(ctx, from, k, statementBytes, nil, func(statement []byte) ([]byte, error) {
		failure = out.Insert(ctx, statement)
		return statement, failure
	})
	if failure != nil {
		return "", failure // is not one of the source
	}
	if err != nil {
		return "", err
	}
	if sum, err = sumOf(ctx, from, k); err != nil {
		return "", sourceFailure(err)
	}
	return sum, out.EndChunk(ctx, Chunk{Table: k.table.Name, From: k.from, To: k.to, Sum: sum})
}

func sumOf(ctx context.Context, conn *sql.Conn, k chunk) (sum string, err error) {
	err = conn.QueryRowContext(ctx, k.table.selectSum(k)).Scan(&sum)
	return sum, err
}
