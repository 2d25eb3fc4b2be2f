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
	crowded, end, err := b.inhabit(ctx, ofFull)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	alone, endAlone, err := b.inhabit(ctx, ofEmpty)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endAlone()) }()
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
	return b.reportExamination(ctx, s.Flavour, full, ofFull)
}

// compareStarts starts brokers by turns.
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
func residentMB(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if kb, found := strings.CutPrefix(line, "VmRSS:"); found {
			n, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(kb), " kB"), 64)
			return n / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d tells no VmRSS", pid)
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

// inhabit starts a broker that has one instance more.
func (b *bench) inhabit(ctx context.Context, environment map[string]string) (_ *inhabitant, end func() error, err error) {
	r, err := b.startBroker(ctx, environment)
	if err != nil {
		return nil, nil, err
	}
	end = func() error { return r.stop(context.WithoutCancel(ctx)) }
	defer func() {
		if err != nil {
			err = errors.Join(err, end())
		}
	}()
	t, err := b.newBrokerTenant(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	i := &inhabitant{tenant: t, client: t.(*brokerTenant).client}
	serviceID, planID, err := b.plan("shared-async")
	if err != nil {
		return nil, nil, err
	}
	path := fmt.Sprintf("/v2/service_instances/resident-%d", r.pid)
	status, answer, err := i.do("PUT", path+"?accepts_incomplete=true",
		fmt.Sprintf(`{"service_id":%q,"plan_id":%q,"organization_guid":"o","space_guid":"s"}`, serviceID, planID))
	var accepted struct{ Operation string }
	if err == nil && (status != http.StatusAccepted || json.Unmarshal(answer, &accepted) != nil) {
		err = fmt.Errorf("status %d: %s", status, answer)
	}
	if err != nil {
		return nil, nil, err
	}
	i.poll, i.fetch = path+"/last_operation?operation="+accepted.Operation, path
	return i, end, i.awaitSuccess(ctx)
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

// measure lives for a while, and polls and fetches meanwhile.
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

// figures are the percentiles that count here.
func (t took) figures() figures {
	f := figures{}
	for name, durations := range t {
		for _, p := range []int{50, 99} {
			f[figureName(name, p)] = percentile(durations, p)
		}
	}
	return f
}

// reportExamination waits until a broker has compared all that is recorded in a full database with the servers.
func (b *bench) reportExamination(ctx context.Context, flavour string, full fullDatabase, environment map[string]string,
) (err error) {
	r, err := b.startBroker(ctx, environment)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop(context.WithoutCancel(ctx))) }()
	since := time.Now()
	most, scrapes := 0.0, took{}
	for examined := false; !examined; {
		c, err := newClient(ctx, r.addr)
		if err != nil {
			return err
		}
		before := time.Now()
		_, metrics, err := c.do("GET", "/metrics", "")
		if err := errors.Join(err, c.close()); err != nil {
			return err
		}
		scrapes["scrape"] = append(scrapes["scrape"], time.Since(before))
		examined = strings.Contains(string(metrics), "\nmysql_broker_examination_timestamp_seconds ")
		memory, err := residentMB(r.pid)
		if err != nil {
			return err
		}
		most = max(most, memory)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	note := fmt.Sprintf("With %d records of what is on servers.", 3*full.instances)
	row := func(what, unit string, figure float64) {
		b.report.add(Row{What: what, Flavour: flavour, Unit: unit, Broker: spreadOf([]float64{figure}), Note: note, Detail: true})
	}
	row("examination, full PostgreSQL", "s", (time.Since(since) - examinationStart).Seconds())
	row("most memory meanwhile", "MB", most)
	row("/metrics meanwhile, p50", "ms", percentile(scrapes["scrape"], 50))
	row("/metrics meanwhile, longest", "ms", percentile(scrapes["scrape"], 100))
	return nil
}
