package transfer

import (
	"context"
	"database/sql"
	"sync"
)

// progress is what a copy has done.
type progress struct {
	mu          sync.Mutex
	done, total uint64
	written     int64
	rows        map[string]uint64 // of divided tables with partitions
}

// reader reads a snapshot in chunks.
type reader struct {
	snapshot *snapshot
	options  Options
	kept     map[string]bool // tables that the target had before
	progress progress
}

// eachWorker runs fn for each worker, with the chunks of all tables, which one more connection divides.
func (r *reader) eachWorker(ctx context.Context, fn func(ctx context.Context, n int, chunks <-chan chunk) error) error {
	r.progress.rows = map[string]uint64{}
	for _, t := range r.snapshot.tables {
		r.progress.total += t.Bytes
	}
	chunks, last := make(chan chunk), r.options.Workers
	err := atOnce(ctx, last+1, func(ctx context.Context, n int) error {
		if n < last {
			return fn(ctx, n, chunks)
		}
		defer close(chunks)
		return r.divide(ctx, r.snapshot.conns[last], chunks)
	})
	if err != nil {
		return err
	}
	return r.checkPartitions(ctx, r.snapshot.conns[last])
}

// atOnce calls fn so many times at once. It returns the first error, or why the context has ended.
func atOnce(ctx context.Context, times int, fn func(ctx context.Context, n int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var calls sync.WaitGroup
	for n := range times {
		calls.Go(func() {
			if err := fn(ctx, n); err != nil {
				cancel(err)
			}
		})
	}
	calls.Wait()
	return context.Cause(ctx)
}

// queue is a closed channel with the items of a list.
func queue[T any](list []T) <-chan T {
	waiting := make(chan T, len(list))
	for _, item := range list {
		waiting <- item
	}
	close(waiting)
	return waiting
}

// divide sends the chunks of all tables.
func (r *reader) divide(ctx context.Context, conn *sql.Conn, chunks chan<- chunk) error {
	for n := range r.snapshot.tables {
		t := &r.snapshot.tables[n]
		if t.Sequence {
			continue
		}
		if err := r.eachChunk(ctx, conn, t, func(k chunk) error {
			// Else a waiting ALTER TABLE would keep the workers from the chunks, and this connection waits for the workers.
			if err := release(ctx, conn); err != nil {
				return err
			}
			select {
			case chunks <- k:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}); err != nil {
			return t.failure(err)
		}
	}
	return nil
}

// eachChunk calls fn with the chunks of a table. Rows may have been added at the end of those that are known.
func (r *reader) eachChunk(ctx context.Context, conn *sql.Conn, t *table, fn func(chunk) error) error {
	last := chunk{table: t, first: true}
	if r.options.Known != nil && !r.options.Gentle && r.kept[t.Name] {
		if known := r.options.Known.chunks(t); known != nil {
			for _, k := range known[:len(known)-1] {
				if err := fn(k); err != nil {
					return err
				}
			}
			last = known[len(known)-1]
		}
	}
	return eachChunk(ctx, conn, last, r.options.chunkBytes(), fn)
}

// each reads chunks from a connection by do, which returns their checksums.
func (r *reader) each(ctx context.Context, from *sql.Conn, chunks <-chan chunk,
	do func(chunk) (sum string, err error)) error {
	for k := range chunks {
		sum, err := do(k)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return k.table.failure(err)
		}
		if err := r.snapshot.releaseRead(ctx, from, k); err != nil {
			return err
		}
		if err := r.complete(k, sum); err != nil {
			return err
		}
	}
	return nil
}

// complete records that a chunk with that checksum is done.
func (r *reader) complete(k chunk, sum string) error {
	if k.table.prunes && k.from+k.to != "" {
		read, err := parseSum(sum)
		if err != nil {
			return ofSource(err)
		}
		r.progress.mu.Lock()
		r.progress.rows[k.table.Name] += read.rows
		r.progress.mu.Unlock()
	}
	r.advance(k.table.Bytes / (k.table.Bytes/r.options.chunkBytes() + 1))
	return nil
}

// advance reports that more is done.
func (r *reader) advance(more uint64) {
	r.progress.mu.Lock()
	defer r.progress.mu.Unlock()
	r.progress.done += more
	if r.options.Progress != nil {
		r.options.Progress(r.progress.done, r.progress.total)
	}
}

// checkPartitions refuses tables with rows that no chunk had. The server looks for a row only in the partition to which
// it belongs, but EXCHANGE PARTITION … WITHOUT VALIDATION puts rows into others.
func (r *reader) checkPartitions(ctx context.Context, conn *sql.Conn) error {
	for name, rows := range r.progress.rows {
		var all uint64
		t := find(r.snapshot.tables, name)
		if err := conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+t.from()).Scan(&all); err != nil {
			return t.failure(sourceFailure(err))
		}
		if all != rows {
			return t.misplaced(nil)
		}
		if err := r.snapshot.releaseRead(ctx, conn, chunk{table: t}); err != nil {
			return err
		}
	}
	return nil
}
