package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"

	"mysql-broker/test/audit"
)

const (
	firstMoved    = 22400 // port
	writeInterval = 5 * time.Millisecond
	writeTime     = 10 * time.Second // before the move
	fewWrites     = 50
	movePoll      = 20 * time.Millisecond
)

const moveNote = "Move: an update from a shared to a dedicated plan while one client commits a row each 5 ms. The pause is " +
	"from its first write that is refused until the operation has succeeded, which is polled every 20 ms. The ratios of " +
	"writers' p99 are those of all commits while the new server is started, and while the rows are copied, to that of the " +
	"10 seconds before. A piped dump is what a user would do without the broker's move: the flavour's own dump program, piped " +
	"into its client, into a dedicated instance that was created before."

// measureMoves measures moves of instances that are written to.
func measureMoves(ctx context.Context, b *bench) error {
	for _, mebibytes := range b.sizes(20) {
		for n, s := range b.servers {
			if err := b.measureMove(ctx, s, mebibytes, firstMoved+100*n); err != nil {
				return fmt.Errorf("%s: %w", s.Flavour, err)
			}
		}
	}
	return nil
}

// measureMove moves an instance to a server of its own while it is written to.
func (b *bench) measureMove(ctx context.Context, s server, mebibytes, port int) (err error) {
	from, to := "shared-large", dedicatedPlan
	if mebibytes > 500 {
		to = "dedicated-large"
	}
	if mebibytes == 1024 { // the plan allows no more, with some room for keys and for the writes
		mebibytes = 900
	}
	f, err := b.newDedicatedFleet(ctx, s, port, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.end(context.WithoutCancel(ctx))) }()
	m := mover{dedicatedFleet: f}
	if m.client, err = newClient(ctx, f.broker.addr); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.client.close()) }()
	if _, m.shared, err = b.plan(from); err != nil {
		return err
	}
	if _, m.dedicated, err = b.plan(to); err != nil {
		return err
	}
	var pauses, before, starting, startRatios, during, ratios, dumpBefore, dumping, dumpRatios []float64
	for range b.copyRounds(mebibytes) {
		byHand, err := m.dump(ctx, mebibytes)
		if err != nil {
			return fmt.Errorf("by a dump: %w", err)
		}
		dumpBefore, dumping = append(dumpBefore, byHand.before), append(dumping, byHand.during)
		dumpRatios = append(dumpRatios, byHand.during/byHand.before)
		result, err := m.move(ctx, mebibytes)
		if err != nil {
			return err
		}
		pauses = append(pauses, result.pause.Seconds())
		before, during = append(before, result.before), append(during, result.during)
		starting, startRatios = append(starting, result.starting), append(startRatios, result.starting/result.before)
		ratios = append(ratios, result.during/result.before)
	}
	limit := 10 * float64(mebibytes) / 1024
	if mebibytes <= 100 {
		limit = 1
	}
	what := fmt.Sprintf("move of %d MiB", mebibytes)
	b.report.add(Row{What: what + ", pause of writers", Flavour: s.Flavour, Unit: "s", Goal: &Goal{AtMost: limit, Unit: "s"},
		Broker: spreadOf(pauses), Note: moveNote})
	b.report.add(Row{What: what + ", writers' p99 while the server is started, to that before", Flavour: s.Flavour,
		Unit: "ms", Broker: spreadOf(starting), Raw: spreadOf(before), Ratio: spreadOf(startRatios), Note: moveNote})
	b.report.add(Row{What: what + ", writers' p99 while rows are copied, to that before", Flavour: s.Flavour, Unit: "ms",
		Goal: atMost(2), Broker: spreadOf(during), Raw: spreadOf(before), Ratio: spreadOf(ratios), Note: moveNote})
	b.report.add(Row{What: what + ", writers' p99 while a piped dump copies, to that before", Flavour: s.Flavour,
		Unit: "ms", Broker: spreadOf(dumping), Raw: spreadOf(dumpBefore), Ratio: spreadOf(dumpRatios), Note: moveNote})
	return nil
}

// mover moves one instance after the other.
type mover struct {
	*dedicatedFleet
	client            *client
	path              string // of the instance
	shared, dedicated string // ids of plans
}

type moved struct {
	pause                    time.Duration
	before, starting, during float64 // p99 of writes, in milliseconds
}

func (m mover) ids(plan string) string {
	return fmt.Sprintf(`"service_id":%q,"plan_id":%q`, m.serviceID, plan)
}

// bind binds an instance of a plan.
func (m mover) bind(plan string) (c audit.Credentials, err error) {
	status, answer, err := m.client.do("PUT", m.path+"/service_bindings/"+uuid.NewString(), "{"+m.ids(plan)+"}")
	if err != nil || status != http.StatusCreated {
		return c, errors.Join(err, fmt.Errorf("bind: status %d: %s", status, answer))
	}
	var binding struct{ Credentials audit.Credentials }
	err = json.Unmarshal(answer, &binding)
	return binding.Credentials, err
}

// delete deletes a dedicated instance.
func (m mover) delete(ctx context.Context) error {
	return m.client.operate(ctx, "DELETE", fmt.Sprintf("%s?accepts_incomplete=true&service_id=%s&plan_id=%s", m.path,
		m.serviceID, m.dedicated), "", movePoll)
}

// reconnect replaces the connection, because the broker closes one that is idle for minutes, or for seconds before its
// first request.
func (m *mover) reconnect(ctx context.Context) error {
	fresh, err := newClient(ctx, m.broker.addr)
	if err != nil {
		return err
	}
	old := m.client
	m.client = fresh
	return old.close()
}

const inSpace = `,"organization_guid":"org","space_guid":"space"}`

// occupy creates a shared instance with data, and returns after it has been written to for some time.
func (m *mover) occupy(ctx context.Context, mebibytes int) (c audit.Credentials, db *sql.DB, w *writer, err error) {
	m.path = "/v2/service_instances/" + uuid.NewString()
	if err := m.client.expect(http.StatusCreated, "PUT", m.path, "{"+m.ids(m.shared)+inSpace); err != nil {
		return c, nil, nil, err
	}
	if c, err = m.bind(m.shared); err != nil {
		return c, nil, nil, err
	}
	if db, err = c.Open(); err != nil {
		return c, nil, nil, err
	}
	if err = fillOrders(ctx, db, mebibytes); err != nil {
		return c, nil, nil, errors.Join(fmt.Errorf("fill the instance: %w", err), db.Close())
	}
	if w, err = startWriter(ctx, db); err != nil {
		return c, nil, nil, errors.Join(err, db.Close())
	}
	select {
	case <-ctx.Done():
	case <-time.After(writeTime):
	}
	if err := m.reconnect(ctx); err != nil {
		w.stop()
		<-w.ended
		return c, nil, nil, errors.Join(err, db.Close())
	}
	return c, db, w, nil
}

// dump copies an instance that is written to as a user would who has a dedicated one beside it.
func (m *mover) dump(ctx context.Context, mebibytes int) (result moved, err error) {
	there := *m
	there.path = "/v2/service_instances/" + uuid.NewString()
	if err := m.client.operate(ctx, "PUT", there.path+"?accepts_incomplete=true", "{"+m.ids(m.dedicated)+inSpace,
		movePoll); err != nil {
		return result, err
	}
	to, err := there.bind(m.dedicated)
	if err != nil {
		return result, err
	}
	from, db, w, err := m.occupy(ctx, mebibytes)
	if err != nil {
		return result, err
	}
	defer db.Close()
	began := time.Now()
	err = m.bench.pipe(ctx, m.server, from, to)
	w.stop()
	<-w.ended
	if err := errors.Join(err, w.err, m.reconnect(ctx)); err != nil {
		return result, err
	}
	there.client = m.client
	var before, during []time.Duration
	for _, one := range w.writes {
		if one.at.Before(began) {
			before = append(before, one.took)
		} else {
			during = append(during, one.took)
		}
	}
	if min(len(before), len(during)) < fewWrites {
		return result, fmt.Errorf("%d writes before the dump, and %d then", len(before), len(during))
	}
	result = moved{before: percentile(before, 99), during: percentile(during, 99)}
	gone := m.client.expect(http.StatusOK, "DELETE", fmt.Sprintf("%s?service_id=%s&plan_id=%s", m.path, m.serviceID,
		m.shared), "")
	return result, errors.Join(gone, there.delete(ctx))
}

func (m *mover) move(ctx context.Context, mebibytes int) (result moved, err error) {
	_, db, w, err := m.occupy(ctx, mebibytes)
	if err != nil {
		return result, err
	}
	defer db.Close()
	began, copying := time.Now(), time.Time{}
	err = m.client.operateSeen(ctx, "PATCH", m.path+"?accepts_incomplete=true", "{"+m.ids(m.dedicated)+"}", movePoll,
		func(description string) {
			if copying.IsZero() && strings.HasPrefix(description, "Copying") {
				copying = time.Now()
			}
		})
	ended := time.Now()
	w.stop()
	<-w.ended
	if err := errors.Join(err, w.err); err != nil {
		return result, err
	}
	var before, starting, during []time.Duration
	for _, one := range w.writes {
		switch {
		case one.at.Before(began):
			before = append(before, one.took)
		case one.at.Before(copying):
			starting = append(starting, one.took)
		default:
			during = append(during, one.took)
		}
	}
	if w.refused.IsZero() || len(starting) == 0 || min(len(before), len(during)) < fewWrites {
		return result, fmt.Errorf("%d writes before the move, %d before rows were copied and %d then, the first refused at %v",
			len(before), len(starting), len(during), w.refused)
	}
	result = moved{ended.Sub(w.refused), percentile(before, 99), percentile(starting, 99), percentile(during, 99)}
	return result, m.delete(ctx)
}

// writer commits rows until it is refused.
type writer struct {
	stop    func()
	ended   chan struct{}
	writes  []write
	refused time.Time
	err     error
}

type write struct {
	at   time.Time
	took time.Duration
}

func startWriter(ctx context.Context, db *sql.DB) (*writer, error) {
	if _, err := db.ExecContext(ctx, "CREATE TABLE written (id BIGINT AUTO_INCREMENT PRIMARY KEY, n INT)"); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &writer{stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		tick := time.NewTicker(writeInterval)
		defer tick.Stop()
		for ctx.Err() == nil {
			since := time.Now()
			_, err := db.ExecContext(ctx, "INSERT INTO written (n) VALUES (1)")
			if refusal, ok := errors.AsType[*mysql.MySQLError](err); ok && (refusal.Number == 1142 || refusal.Number == 1317) {
				w.refused = since
				return
			}
			if err != nil && ctx.Err() == nil && !errors.Is(err, mysql.ErrInvalidConn) { // its connection was killed
				w.err = err
				return
			}
			if err == nil {
				w.writes = append(w.writes, write{since, time.Since(since)})
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	return w, nil
}
