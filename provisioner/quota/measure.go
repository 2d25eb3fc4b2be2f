package quota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

const (
	// page is how many databases are compared with their records at a time.
	page = 1000
	// measureTimeout bounds a query about all databases of a shared server, exactTimeout a query about one of them, and
	// dedicatedTimeout the queries to a dedicated server. The latter two are less than freshTime.
	measureTimeout   = 30 * time.Second
	exactTimeout     = 10 * time.Second
	dedicatedTimeout = 5 * time.Second
	// A sample is recorded after a change of 1/sampleShare of the quota, but at most once in sampleInterval, and after any
	// change once in sampleLate.
	sampleShare    = 50
	sampleInterval = 10 * time.Minute
	sampleLate     = 24 * time.Hour
)

// eachShared measures the shared servers, sharedAtOnce at a time. It logs failures by server.
func (g *Guard) eachShared(ctx context.Context) error {
	var measuring errgroup.Group
	measuring.SetLimit(sharedAtOnce)
	for _, server := range g.Fleet.Shared.All() {
		measuring.Go(func() error {
			err := g.measureShared(ctx, server)
			if ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, store.ErrUnavailable) {
				return err
			}
			g.measuring.Report(ctx, server.Name(), err)
			return nil
		})
	}
	return measuring.Wait()
}

// measureShared measures the databases of a shared server. A database that does not exist counts as empty if its
// instance is over its quota: its developer dropped it, and cannot create it again before the privileges are restored.
// An error of one instance does not keep the others from being measured.
func (g *Guard) measureShared(ctx context.Context, server *shared.Server) error {
	sizes, incomplete, err := g.sizes(ctx, server)
	if err != nil {
		return err
	}
	over, err := g.Store.Usage.OverQuota(ctx, server.Name())
	if err != nil {
		return fmt.Errorf("read which instances are over their quota: %w", err)
	}
	for _, m := range over {
		sizes[m.Database] += 0
	}
	stored := g.programs(ctx, server, sizes)
	errs := []error{stored.err}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(sizes)), page) {
		instances, err := g.Store.Usage.OnServer(ctx, server.Name(), some)
		if err != nil {
			return fmt.Errorf("read the instances of a server: %w", err)
		}
		var changes []store.UsageChange
		for _, m := range instances {
			tables := sizes[m.Database]
			files := tables + stored.bytes[m.Database]
			if stored.endless[m.Database] { // programs that cannot be read in time count as over any quota
				files += 2 * g.Plans.Get(m.PlanID).Quota()
			}
			measures := []measure{func(ctx context.Context) (mysqladmin.Size, error) {
				return server.Sizes.Of(ctx, m.Database)
			}}
			if _, has := g.readings[server.Name()].otherTables[m.Database]; !has && incomplete == nil {
				measures = slices.Insert(measures, 0, func(ctx context.Context) (mysqladmin.Size, error) {
					return server.Sizes.OfFiles(ctx, m.Database, tables)
				})
			}
			c, err := g.assess(ctx, m, files, measures...)
			if ctx.Err() != nil || errors.Is(err, store.ErrUnavailable) {
				return err
			}
			if err != nil {
				if down := server.Ping(ctx); down != nil {
					return down
				}
				errs = append(errs, fmt.Errorf("instance %q: %w", m.InstanceID, err))
			} else if m.Bytes == nil || c.Bytes != *m.Bytes || c.Level != m.Level {
				changes = append(changes, c)
			}
		}
		if err := g.record(ctx, changes); err != nil {
			return err
		}
	}
	if incomplete == nil {
		incomplete = g.Store.Usage.RecordMeasurement(ctx, server.Name())
	}
	return errors.Join(append(errs, incomplete)...)
}

func (g *Guard) record(ctx context.Context, changes []store.UsageChange) error {
	if len(changes) == 0 {
		return nil
	}
	if err := g.Store.Usage.Record(ctx, changes); err != nil {
		return fmt.Errorf("record how much storage the instances use: %w", err)
	}
	return nil
}

// sizes measures all databases of a server. incomplete is the error if tables without an InnoDB file could not all be
// measured: they count as they did at the last measurement, or not at all.
func (g *Guard) sizes(ctx context.Context, server *shared.Server) (sizes map[string]int64, incomplete, err error) {
	if err := server.Ping(ctx); err != nil {
		return nil, nil, err
	}
	limited, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	if sizes, err = server.Sizes.Files(limited); err != nil {
		return nil, nil, err
	}
	others, incomplete := g.otherTables(ctx, server)
	for name, bytes := range others {
		sizes[name] += bytes
	}
	return sizes, incomplete, nil
}

// otherTables measures the tables without an InnoDB file, by database. What cannot be measured counts as it did before.
func (g *Guard) otherTables(ctx context.Context, server *shared.Server) (map[string]int64, error) {
	limited, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	bytes, err := server.Sizes.OtherTables(limited)
	latest := g.readings[server.Name()]
	if err != nil {
		known := maps.Clone(latest.otherTables)
		maps.Copy(known, bytes)
		bytes = known
	}
	latest.otherTables = bytes
	return bytes, err
}

// eachDedicated measures the dedicated servers, dedicatedAtOnce at a time. It logs failures by server. Unless every
// server failed, it records that this side was measured: one server that stays down must not raise the alarm for all.
func (g *Guard) eachDedicated(ctx context.Context) error {
	if len(g.Fleet.Launchers()) == 0 {
		return nil
	}
	measured, failed := 0, 0
	err := g.Store.Usage.EachDedicated(ctx, func(some []store.Measured) error {
		var mu sync.Mutex
		var changes []store.UsageChange
		var measuring errgroup.Group
		measuring.SetLimit(dedicatedAtOnce)
		for _, m := range some {
			measuring.Go(func() error {
				c, err := g.measureDedicated(ctx, m)
				if ctx.Err() != nil || errors.Is(err, store.ErrUnavailable) {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.Is(err, errBusy):
				case err != nil:
					failed++
				default:
					measured++
					changes = append(changes, c)
				}
				return nil
			})
		}
		return errors.Join(measuring.Wait(), g.record(ctx, changes))
	})
	if err != nil || measured == 0 && failed > 0 {
		return err
	}
	return g.Store.Usage.RecordMeasurement(ctx, store.DedicatedServers)
}

// measureDedicated measures a dedicated server, and logs the error if that fails. If it fails because of an operation
// on the instance, it logs nothing and returns errBusy.
func (g *Guard) measureDedicated(ctx context.Context, m store.Measured) (store.UsageChange, error) {
	i, err := g.Store.Instances.Get(ctx, m.InstanceID)
	if errors.Is(err, store.ErrNotFound) {
		return store.UsageChange{}, errBusy
	}
	if err != nil {
		return store.UsageChange{}, err
	}
	c, err := g.measureServer(ctx, i, m)
	if err != nil && (g.Fleet.Starting(i.Location) || g.operating(ctx, i.ID)) {
		err = errBusy
	}
	if !errors.Is(err, errBusy) {
		g.measuring.Report(ctx, i.Location.Server, err)
	}
	return c, err
}

// operating reports whether an operation may have stopped or removed the instance's server.
func (g *Guard) operating(ctx context.Context, instanceID string) bool {
	latest, err := g.Store.Tasks.Latest(ctx, instanceID, "", "")
	return err == nil && (latest.State == store.InProgress || latest.Kind == store.Deprovision)
}

func (g *Guard) measureServer(ctx context.Context, i store.Instance, m store.Measured) (store.UsageChange, error) {
	limited, cancel := context.WithTimeout(ctx, dedicatedTimeout)
	defer cancel()
	var size mysqladmin.Size
	var version mysqladmin.Flavour
	err := g.Fleet.AsAdmin(limited, i, func(admin *mysqladmin.Server) (err error) {
		if size, err = admin.Sizes.Of(limited, i.Database); err != nil {
			return err
		}
		if version, err = admin.Flavour(limited); err != nil {
			return err
		}
		return admin.Setup.LoadTimeZones(limited) // of servers from before brokers did so
	})
	if err == nil {
		err = g.Fleet.RecordVersion(limited, i, version)
	}
	if err != nil {
		return store.UsageChange{}, err
	}
	return g.assess(ctx, m, size.Files, func(context.Context) (mysqladmin.Size, error) { return size, nil })
}

// measure measures one database, including the space in its files that can be reused.
type measure func(context.Context) (mysqladmin.Size, error)

// assess returns what to record about an instance. files is the size of its database's files in bytes. If the instance
// is now over its quota, or no longer is, assess records that and changes the privileges of its accounts. It does so by
// the last of the measures alone, and else needs only the first: OfFiles subtracts what is free now from what the files
// had before, and a tenant may have made them smaller in between.
func (g *Guard) assess(ctx context.Context, m store.Measured, files int64,
	measures ...measure) (store.UsageChange, error) {
	c := store.UsageChange{Database: m.Database, Bytes: files, Level: m.Level}
	quota := g.Plans.Get(m.PlanID).Quota()
	if quota == 0 { // the plan was removed from the catalog: its quota is not known, and nothing changes
		c.Sample = g.worthSample(m, c, 0)
		return c, nil
	}
	over, now := m.OverSince != nil, time.Now()
	before := min(m.Level, Over-1)
	if over {
		before = Over
	}
	if exactly(files, quota, over) {
		for _, by := range measures {
			var err error
			now = time.Now()
			if c.Bytes, err = used(ctx, files, quota, by); err != nil {
				return c, err
			}
			if over == (Level(c.Bytes, quota, before) == Over) {
				break
			}
		}
	}
	c.Level = Level(c.Bytes, quota, before)
	c.Sample = g.worthSample(m, c, quota)
	switch {
	case over != (c.Level == Over):
		// Recorded first, so that users never see an instance over its quota with less data than the quota.
		if err := g.record(ctx, []store.UsageChange{c}); err != nil {
			return c, err
		}
		c.Sample = false
		return c, g.change(ctx, m, c.Bytes, now)
	case c.Level > m.Level && !over:
		g.Logger.LogAttrs(ctx, slog.LevelWarn, "a service instance uses much of its quota",
			g.facts(m, c.Bytes)...)
	}
	return c, nil
}

// used returns how many bytes of its quota a database uses. files is the size of its files. If exact fails, as it does
// for very many tables, files of at least twice the quota count as over the quota, regardless of how much of them can
// be reused.
func used(ctx context.Context, files, quota int64, exact measure) (int64, error) {
	limited, cancel := context.WithTimeout(ctx, exactTimeout)
	defer cancel()
	size, err := exact(limited)
	if err != nil && ctx.Err() == nil && files >= 2*quota {
		size, err = mysqladmin.Size{Files: files, Reusable: quota}, nil
	}
	return size.Used(quota), err
}

// worthSample reports whether a measurement belongs in the history.
func (g *Guard) worthSample(m store.Measured, c store.UsageChange, quota int64) bool {
	if m.Bytes == nil || c.Level != m.Level {
		return true
	}
	difference := max(c.Bytes-m.SampledBytes, m.SampledBytes-c.Bytes)
	return difference > 0 && (m.SampledAge >= sampleLate ||
		m.SampledAge >= sampleInterval && difference >= quota/sampleShare)
}
