package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	scaleRounds      = 10
	scaleLives       = 50 // in a round
	startRounds      = 10
	idleTime         = 5 * time.Second // after which a broker is idle
	examinationStart = 10 * time.Second
)

// measureFullPostgres compares brokers with a full and an empty PostgreSQL database.
func measureFullPostgres(ctx context.Context, b *bench) error {
	full, err := b.fullDatabase(ctx)
	if err != nil {
		return fmt.Errorf("fill PostgreSQL: %w", err)
	}
	for _, s := range b.servers {
		if err := b.measureFullPostgresOn(ctx, s, full); err != nil {
			return fmt.Errorf("%s: %w", s.Flavour, err)
		}
	}
	return nil
}

func (b *bench) measureFullPostgresOn(ctx context.Context, s server, full fullDatabase) (err error) {
	ofEmpty, err := b.environment(ctx, s)
	if err != nil {
		return err
	}
	ofFull, err := b.environment(ctx, s)
	if err != nil {
		return err
	}
	ofFull["DATABASE_URL"], ofFull["ENCRYPTION_KEYSET"] = full.url, full.keyset
	if err := b.compareStarts(ctx, s.Flavour, ofFull, ofEmpty); err != nil {
		return err
	}
	var both [2]*inhabitant
	for i, environment := range []map[string]string{ofFull, ofEmpty} {
		var r *broker
		if r, err = b.startBroker(ctx, environment); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.stop(context.WithoutCancel(ctx))) }()
		// The next examination comes after all measurements.
		var seen examination
		if seen, err = r.watchExamination(ctx); err != nil {
			return err
		}
		if i == 0 {
			b.reportExamination(s.Flavour, full, seen)
		}
		if both[i], err = b.inhabit(ctx, r); err != nil {
			return err
		}
	}
	crowded, alone := both[0], both[1]
	c, err := compare(ctx, b.rounds(scaleRounds), crowded.measure, alone.measure)
	if err != nil {
		return err
	}
	note := fmt.Sprintf("Broker: with %d instances, %d bindings and %d finished tasks in PostgreSQL; raw: the same broker, "+
		"empty; both on the same mysqld.", full.instances, 2*full.instances, 5*full.instances)
	for _, name := range append(operationNames, lastOperation, fetchInstance) {
		for _, p := range []int{50, 99} {
			b.report.add(c.row(figureName(name, p), Row{What: fmt.Sprintf("%s, full PostgreSQL, p%d", name, p),
				Flavour: s.Flavour, Unit: "ms", Goal: atMost(1.2), Note: note}))
		}
	}
	return nil
}

// compareStarts starts both brokers alternately.
func (b *bench) compareStarts(ctx context.Context, flavour string, full, empty map[string]string) error {
	side := func(environment map[string]string) func(context.Context) (figures, error) {
		return func(ctx context.Context) (figures, error) {
			r, err := b.startBroker(ctx, environment)
			if err != nil {
				return nil, err
			}
			select {
			case <-ctx.Done():
			case <-time.After(idleTime):
			}
			memory, err := residentMB(r.pid)
			return figures{"ready": milliseconds(r.started), "memory": memory}, errors.Join(err, r.stop(ctx))
		}
	}
	c, err := compare(ctx, b.rounds(startRounds), side(full), side(empty))
	if err != nil {
		return err
	}
	for _, which := range []struct {
		name    string
		figures []figures
	}{{"full PostgreSQL", c.broker}, {"empty PostgreSQL", c.raw}} {
		b.report.add(Row{What: "start until ready, " + which.name, Flavour: flavour, Unit: "ms",
			Goal: &Goal{AtMost: 300, Unit: "ms"}, Broker: spreadOf(pick(which.figures, "ready"))})
		b.report.add(Row{What: "idle memory, " + which.name, Flavour: flavour, Unit: "MB",
			Goal: &Goal{AtMost: 30, Unit: "MB"}, Broker: spreadOf(pick(which.figures, "memory"))})
	}
	return nil
}

// residentMB is how much memory a process has, in 2^20 bytes.
func residentMB(pid int) (float64, error) { return statusMB(pid, "VmRSS") }

// statusMB is a figure of a process, in 2^20 bytes. Of VmRSS, RssFile are pages of the program's file, which the kernel
// reads again if it drops them; RssAnon is what the program has allocated.
// https://man7.org/linux/man-pages/man5/proc_pid_status.5.html
func statusMB(pid int, figure string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if kb, found := strings.CutPrefix(line, figure+":"); found {
			n, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(kb), " kB"), 64)
			return n / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d tells no %s", pid, figure)
}

// inhabitant is a broker's only client.
type inhabitant struct {
	tenant
	*client
	poll, fetch string
}

const (
	lastOperation = "last_operation"
	fetchInstance = "fetch instance"
)

// inhabit creates one more instance through a broker.
func (b *bench) inhabit(ctx context.Context, r *broker) (*inhabitant, error) {
	t, err := b.newBrokerTenant(ctx, r)
	if err != nil {
		return nil, err
	}
	i := &inhabitant{tenant: t, client: t.(*brokerTenant).client}
	serviceID, planID, err := b.plan("shared-async")
	if err != nil {
		return nil, err
	}
	path := fmt.Sprintf("/v2/service_instances/resident-%d", r.pid)
	status, answer, err := i.do("PUT", path+"?accepts_incomplete=true",
		fmt.Sprintf(`{"service_id":%q,"plan_id":%q,"organization_guid":"o","space_guid":"s"}`, serviceID, planID))
	var accepted struct{ Operation string }
	if err == nil && (status != http.StatusAccepted || json.Unmarshal(answer, &accepted) != nil) {
		err = fmt.Errorf("status %d: %s", status, answer)
	}
	if err != nil {
		return nil, err
	}
	i.poll, i.fetch = path+"/last_operation?operation="+accepted.Operation, path
	return i, i.awaitSuccess(ctx)
}

func (i *inhabitant) awaitSuccess(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		_, answer, err := i.do("GET", i.poll, "")
		if err != nil || strings.Contains(string(answer), `"succeeded"`) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the operation does not succeed: %s", answer)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// measure runs some lives, and polls and fetches between them.
func (i *inhabitant) measure(context.Context) (figures, error) {
	t := took{}
	for range scaleLives {
		if err := t.live(i.tenant); err != nil {
			return nil, err
		}
		for name, path := range map[string]string{lastOperation: i.poll, fetchInstance: i.fetch} {
			for range 4 {
				since := time.Now()
				if err := i.expect(http.StatusOK, "GET", path, ""); err != nil {
					return nil, err
				}
				t[name] = append(t[name], time.Since(since))
			}
		}
	}
	return t.figures(), nil
}

// figures returns the percentiles that the report shows.
func (t took) figures() figures {
	f := figures{}
	for name, durations := range t {
		for _, p := range []int{50, 99} {
			f[figureName(name, p)] = percentile(durations, p)
		}
	}
	return f
}

// examination has the measurements of a broker's first examination.
type examination struct {
	took    time.Duration
	memory  float64 // the most, in MB
	scrapes []time.Duration
}

// watchExamination waits until a broker that was just started has compared all its records with the servers.
func (r *broker) watchExamination(ctx context.Context) (e examination, err error) {
	since := time.Now()
	c, err := newClient(ctx, r.addr)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	for {
		before := time.Now()
		_, metrics, err := c.do("GET", "/metrics", "")
		if err != nil {
			return e, err
		}
		e.scrapes = append(e.scrapes, time.Since(before))
		memory, err := residentMB(r.pid)
		if err != nil {
			return e, err
		}
		e.memory = max(e.memory, memory)
		if strings.Contains(string(metrics), "\nmysql_broker_examination_timestamp_seconds ") {
			e.took = time.Since(since) - examinationStart
			return e, nil
		}
		select {
		case <-ctx.Done():
			return e, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (b *bench) reportExamination(flavour string, full fullDatabase, e examination) {
	note := fmt.Sprintf("With %d records of what is on servers.", 3*full.instances)
	row := func(what, unit string, figure float64) {
		b.report.add(Row{What: what, Flavour: flavour, Unit: unit, Broker: spreadOf([]float64{figure}), Note: note, Detail: true})
	}
	row("examination, full PostgreSQL", "s", e.took.Seconds())
	row("most memory meanwhile", "MB", e.memory)
	row("/metrics meanwhile, p50", "ms", percentile(e.scrapes, 50))
	row("/metrics meanwhile, longest", "ms", percentile(e.scrapes, 100))
}
