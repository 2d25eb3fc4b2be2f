package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"mysql-broker/test/audit"
)

const (
	launchRounds   = 9
	launchPoll     = 5 * time.Millisecond
	atOnce         = 20
	atOnceRounds   = 3
	atOncePoll     = 100 * time.Millisecond // of each of many: more frequent polls would slow the servers down
	dedicatedPlan  = "dedicated-small"
	firstDedicated = 22000 // port
	restTime       = 5 * time.Second
	operationTime  = 30 * time.Minute // a gigabyte may be moved meanwhile
)

const rawDedicatedNote = "Raw: mysqld with the settings file that the broker wrote, on a ready data directory and with " +
	"ready keys, from its exec to the answer of its first query, over TCP and TLS, by an account that its init file makes. " +
	"The broker's: from PUT, polls every 5 ms, until the operation has succeeded, plus the login and first query of a " +
	"bound account; what the bind takes in between does not count."

const atOnceNote = "Raw: the better of all at once and four at a time. The broker's: from the first PUT until the last " +
	"operation has succeeded, to which belongs a login over TLS; each is polled every 100 ms."

// measureDedicated compares a dedicated server from the broker with a mysqld that is started by hand.
func measureDedicated(ctx context.Context, b *bench) error {
	for i, s := range b.servers {
		if err := b.measureDedicatedOn(ctx, s, firstDedicated+100*i); err != nil {
			return fmt.Errorf("%s: %w", s.Flavour, err)
		}
	}
	return nil
}

func (b *bench) measureDedicatedOn(ctx context.Context, s server, port int) error {
	for _, spares := range []int{2, atOnce} {
		if err := b.measureLaunches(ctx, s, port, spares); err != nil {
			return fmt.Errorf("%d spares: %w", spares, err)
		}
	}
	return nil
}

func (b *bench) measureLaunches(ctx context.Context, s server, port, spares int) (err error) {
	f, err := b.newDedicatedFleet(ctx, s, port, spares)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.end(context.WithoutCancel(ctx))) }()
	raw, err := f.newRawFleet(ctx)
	if err != nil {
		return err
	}
	const took, together = "took", "together"
	if spares < atOnce {
		c, err := compare(ctx, b.rounds(launchRounds),
			func(ctx context.Context) (figures, error) {
				d, err := f.launchOne(ctx, nil)
				return figures{took: d}, err
			},
			func(ctx context.Context) (figures, error) {
				d, err := raw.startOne(ctx)
				return figures{took: d}, err
			})
		if err != nil {
			return err
		}
		b.report.add(c.row(took, Row{What: dedicatedPlan + ": PUT → succeeded → first query", Flavour: s.Flavour, Unit: "ms",
			Goal: atMost(1.3), Note: rawDedicatedNote}))
		if err := b.measureAtRest(ctx, s, f, raw); err != nil {
			return fmt.Errorf("at rest: %w", err)
		}
	}
	c, err := compare(ctx, b.rounds(atOnceRounds),
		func(ctx context.Context) (figures, error) {
			d, err := f.launchMany(ctx)
			return figures{together: d}, err
		},
		func(ctx context.Context) (figures, error) {
			d, err := raw.startMany(ctx)
			return figures{together: d}, err
		})
	if err != nil {
		return err
	}
	b.report.add(c.row(together, Row{What: fmt.Sprintf("%d %s at once, LAUNCHER_SPARES=%d", atOnce, dedicatedPlan, spares),
		Flavour: s.Flavour, Unit: "ms", Goal: atMost(1.3), Note: atOnceNote}))
	return nil
}

// measureAtRest looks at a server of either kind while both run and nobody uses them.
func (b *bench) measureAtRest(ctx context.Context, s server, f *dedicatedFleet, raw *rawFleet) error {
	c, err := compare(ctx, 3, // a round takes restTime, so -quick does not shorten it
		func(ctx context.Context) (of figures, err error) {
			_, err = f.launchOne(ctx, func(dir string) (err error) { of, err = atRest(ctx, dir); return err })
			return of, err
		},
		func(ctx context.Context) (of figures, err error) {
			r, err := raw.prepare(0)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, r.remove()) }()
			if err := r.start(ctx); err != nil {
				return nil, err
			}
			return atRest(ctx, r.dir)
		})
	if err != nil {
		return err
	}
	for _, figure := range []string{rss, pss, disk} {
		b.report.add(c.row(figure, Row{What: dedicatedPlan + " at rest, " + figure, Flavour: s.Flavour, Unit: "MiB",
			Goal: atMost(1.05), Note: "At rest: 5 seconds after the first query. PSS shares the program's pages with the " +
				"other servers that run. Disk: allocated blocks of all the server's files."}))
	}
	return nil
}

// dedicatedFleet makes dedicated servers through a broker of its own.
type dedicatedFleet struct {
	bench           *bench
	server          server
	dir             string // LAUNCHER_DIR
	spares          int
	broker          *broker
	serviceID, plan string
	port            int // the first of the raw servers'
}

func (b *bench) newDedicatedFleet(ctx context.Context, s server, port, spares int) (*dedicatedFleet, error) {
	f := &dedicatedFleet{bench: b, server: s, spares: spares, port: port + 50,
		dir: filepath.Join(b.dir, fmt.Sprintf("dedicated-%s-%d", s.Flavour, spares))}
	var err error
	if f.serviceID, f.plan, err = b.plan(dedicatedPlan); err != nil {
		return nil, err
	}
	environment, err := b.environment(ctx, s)
	if err != nil {
		return nil, err
	}
	environment["LAUNCHER"], environment["LAUNCHER_DIR"], environment["LAUNCHER_MYSQLD"] = "process", f.dir, s.binary.Path
	environment["LAUNCHER_PORTS"] = fmt.Sprintf("%d-%d", port, port+49)
	environment["LAUNCHER_SPARES"] = strconv.Itoa(spares)
	f.broker, err = b.startBroker(ctx, environment)
	return f, err
}

// end stops all servers, even after a failure.
func (f *dedicatedFleet) end(ctx context.Context) error {
	err := f.broker.stop(ctx)
	dirs, globErr := filepath.Glob(filepath.Join(f.dir, "instances", "*"))
	err = errors.Join(err, globErr)
	for _, dir := range dirs {
		err = errors.Join(err, killServer(dir))
	}
	return errors.Join(err, os.RemoveAll(f.dir))
}

// launchOne makes an instance and deletes it. It returns how long it took until its first query was answered. Before
// the deletion it calls use with the server's directory, unless use is nil.
func (f *dedicatedFleet) launchOne(ctx context.Context, use func(dir string) error) (took float64, err error) {
	if err := f.awaitSpares(ctx); err != nil {
		return 0, err
	}
	c, err := newClient(ctx, f.broker.addr)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	path := "/v2/service_instances/" + uuid.NewString()
	since := time.Now()
	if err := f.provision(ctx, c, path, launchPoll); err != nil {
		return 0, err
	}
	launched := time.Since(since)
	status, answer, err := c.do("PUT", path+"/service_bindings/"+uuid.NewString(),
		fmt.Sprintf(`{"service_id":%q,"plan_id":%q}`, f.serviceID, f.plan))
	if err != nil || status != http.StatusCreated {
		return 0, errors.Join(err, fmt.Errorf("bind: status %d: %s", status, answer))
	}
	var binding struct{ Credentials audit.Credentials }
	if err := json.Unmarshal(answer, &binding); err != nil {
		return 0, err
	}
	since = time.Now()
	if err := firstQuery(ctx, binding.Credentials); err != nil {
		return 0, err
	}
	took = milliseconds(launched + time.Since(since))
	if use != nil {
		dirs, err := filepath.Glob(filepath.Join(f.dir, "instances", "*"))
		if err != nil || len(dirs) != 1 {
			return 0, errors.Join(err, fmt.Errorf("%d servers run instead of one", len(dirs)))
		}
		if err := use(dirs[0]); err != nil {
			return 0, err
		}
	}
	return took, f.deprovision(ctx, c, path)
}

// launchMany makes instances all at once, then deletes them.
func (f *dedicatedFleet) launchMany(ctx context.Context) (took float64, err error) {
	if err := f.awaitSpares(ctx); err != nil {
		return 0, err
	}
	var clients []*client
	defer func() {
		for _, c := range clients {
			err = errors.Join(err, c.close())
		}
	}()
	var paths []string
	for range atOnce {
		c, err := newClient(ctx, f.broker.addr)
		if err != nil {
			return 0, err
		}
		clients, paths = append(clients, c), append(paths, "/v2/service_instances/"+uuid.NewString())
	}
	since := time.Now()
	if err := each(atOnce, atOnce, func(i int) error { return f.provision(ctx, clients[i], paths[i], atOncePoll) }); err != nil {
		return 0, err
	}
	took = milliseconds(time.Since(since))
	return took, each(atOnce, 4, func(i int) error { return f.deprovision(ctx, clients[i], paths[i]) })
}

func (f *dedicatedFleet) provision(ctx context.Context, c *client, path string, every time.Duration) error {
	return c.operate(ctx, "PUT", path+"?accepts_incomplete=true", fmt.Sprintf(`{"service_id":%q,"plan_id":%q,`+
		`"organization_guid":"org","space_guid":"space"}`, f.serviceID, f.plan), every)
}

func (f *dedicatedFleet) deprovision(ctx context.Context, c *client, path string) error {
	return c.operate(ctx, "DELETE",
		fmt.Sprintf("%s?accepts_incomplete=true&service_id=%s&plan_id=%s", path, f.serviceID, f.plan), "", launchPoll)
}

// operate starts an operation and polls it at an interval until it has ended.
func (c *client) operate(ctx context.Context, method, target, body string, every time.Duration) error {
	return c.operateSeen(ctx, method, target, body, every, func(string) {})
}

// operateSeen is operate that calls seen with each description that it reads.
func (c *client) operateSeen(ctx context.Context, method, target, body string, every time.Duration,
	seen func(description string)) error {
	status, answer, err := c.do(method, target, body)
	if err != nil || status != http.StatusAccepted {
		return errors.Join(err, fmt.Errorf("%s: status %d: %s", method, status, answer))
	}
	var begun struct{ Operation string }
	if err := json.Unmarshal(answer, &begun); err != nil {
		return err
	}
	path, _, _ := strings.Cut(target, "?")
	return c.pollOperation(ctx, method, path, begun.Operation, every, operationTime, seen)
}

// awaitOperation polls an operation at an interval until it has succeeded.
func (c *client) awaitOperation(ctx context.Context, method, path, operation string, every, atMost time.Duration) error {
	return c.pollOperation(ctx, method, path, operation, every, atMost, func(string) {})
}

func (c *client) pollOperation(ctx context.Context, method, path, operation string, every, atMost time.Duration,
	seen func(description string)) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		status, answer, err := c.do("GET", path+"/last_operation?operation="+operation, "")
		if err != nil {
			return err
		}
		var last struct{ State, Description string }
		if err := json.Unmarshal(answer, &last); err != nil {
			return err
		}
		if last.State == "succeeded" || status == http.StatusGone && method == "DELETE" {
			return nil
		}
		if last.State != "in progress" {
			return fmt.Errorf("%s: status %d: %s", method, status, answer)
		}
		seen(last.Description)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// awaitSpares waits until the broker has created all its spares; before the first launch, it creates none.
func (f *dedicatedFleet) awaitSpares(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		templates, err := os.ReadDir(filepath.Join(f.dir, "templates"))
		if err != nil || len(templates) == 0 {
			return err
		}
		spares, err := os.ReadDir(filepath.Join(f.dir, "spares"))
		if err != nil {
			return err
		}
		ready := len(spares) == f.spares && !slices.ContainsFunc(spares, func(e os.DirEntry) bool {
			return strings.HasSuffix(e.Name(), ".unfinished")
		})
		if ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for spares: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// each calls do for the numbers below n, some concurrently.
func each(n, atATime int, do func(i int) error) error {
	var all sync.WaitGroup
	free := make(chan struct{}, atATime)
	errs := make([]error, n)
	for i := range n {
		all.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			errs[i] = do(i)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
