package provisioner

import (
	"context"
	"errors"
	"fmt"

	"mysql-broker/store"
)

// Storage is what the data of an instance took when they were last measured, of what its plan allows.
type Storage struct {
	store.Usage
	Quota int64 // bytes; 0 if nobody knows
}

// Storage reads that of an instance. found is false before the first measurement, and while quotas are off.
func (p *Provisioner) Storage(ctx context.Context, i store.Instance) (s Storage, found bool, err error) {
	if p.quotasOff {
		return s, false, nil
	}
	usage, err := p.store.Usage(ctx, i.ID)
	if errors.Is(err, store.ErrNotFound) {
		return s, false, nil
	}
	if err != nil {
		return s, false, fmt.Errorf("read what the instance's data take: %w", err)
	}
	return Storage{usage, p.planOf(i).Quota()}, true, nil
}

// mebibytes rounds up.
func mebibytes(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }
