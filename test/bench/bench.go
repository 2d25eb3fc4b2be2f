package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"mysql-broker/cmd/mysql-broker/dev/pgcluster"
	"mysql-broker/provisioner/launcher/mysqld"
)

const (
	startTime = 2 * time.Minute // for a server or a broker to come up or end
	quickest  = 2               // rounds with -quick
)

// bench is what sections work with: servers that run, and the report.
type bench struct {
	options  options
	dir      string // of this run; any user can enter it
	postgres *pgcluster.Cluster
	servers  []server // one for each flavour measured
	report   report
	ends     []func(context.Context) error // stop what was started, in reverse order
}

func (b *bench) start(ctx context.Context) error {
	if err := b.makeDir(); err != nil {
		return err
	}
	var err error
	b.postgres, err = pgcluster.Start(ctx, pgcluster.Config{Dir: filepath.Join(b.dir, "postgres"), Durable: true})
	if err != nil {
		return err
	}
	b.atEnd(b.postgres.Stop)
	binaries := slices.DeleteFunc(mysqld.FindBinaries(filepath.SplitList(os.Getenv("MYSQLD"))...),
		func(binary mysqld.Binary) bool {
			return b.options.flavour != "" && binary.Flavour != b.options.flavour
		})
	if len(binaries) == 0 {
		return errors.New("no such mysqld is installed, and $MYSQLD names none")
	}
	for _, binary := range binaries {
		s, err := b.startServer(ctx, binary)
		if err != nil {
			return fmt.Errorf("start %s: %w", binary.Path, err)
		}
		b.servers = append(b.servers, s)
	}
	b.report.Machine, err = b.describe(ctx)
	return err
}

func (b *bench) makeDir() (err error) {
	if b.options.broker, err = filepath.Abs(b.options.broker); err != nil {
		return err
	}
	if b.options.catalog, err = filepath.Abs(b.options.catalog); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp(b.options.dir, "mysql-broker-bench-"); err != nil {
		return err
	}
	b.atEnd(func(context.Context) error { return os.RemoveAll(b.dir) })
	return os.Chmod(b.dir, 0o711)
}

// atEnd registers a function to run after all measurements, or when the run is interrupted.
func (b *bench) atEnd(end func(context.Context) error) { b.ends = append(b.ends, end) }

func (b *bench) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	var errs []error
	for _, end := range slices.Backward(b.ends) {
		errs = append(errs, end(ctx))
	}
	return errors.Join(errs...)
}

// sizes are those of databases to measure, in MiB; only small with -quick.
func (b *bench) sizes(small int) []int {
	switch {
	case b.options.mib > 0:
		return []int{b.options.mib}
	case b.options.quick:
		return []int{small}
	}
	return []int{100, 1024}
}

// rounds is the number of measurements: n, or fewer with -quick.
func (b *bench) rounds(n int) int {
	if b.options.quick {
		return min(n, quickest)
	}
	return n
}
