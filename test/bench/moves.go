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
	"10 seconds before."

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
	from, to := "shared-small", dedicatedPlan
	if mebibytes >= 100 { // the plan allows no more, with some room for the writes
		mebibytes -= mebibytes / 10
	}
	if mebibytes > 100 {
		from, to = "shared-large", "dedicated-large"
	}
	f, err := b.newDedicatedFleet(ctx, s, port, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.end(context.WithoutCancel(ctx))) }()
	m := mover{dedicatedFleet: f, path: "/v2/service_instances/" + uuid.NewString(), binding: uuid.NewString()}
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
	var pauses, before, starting, startRatios, during, ratios []float64
	for range min(b.rounds(copyRounds), copyRounds) {
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
	return nil
}

// mover moves one instance after the other.
type mover struct {
	*dedicatedFleet
	client            *client
	path, binding     string
	shared, dedicated string // ids of plans
}

type moved struct {
	pause                    time.Duration
	before, starting, during float64 // p99 of writes, in milliseconds
}

func (m mover) move(ctx context.Context, mebibytes int) (result moved, err error) {
	m.path, m.binding = "/v2/service_instances/"+uuid.NewString(), uuid.NewString()
	ids := func(plan string) string { return fmt.Sprintf(`"service_id":%q,"plan_id":%q`, m.serviceID, plan) }
	if err := m.client.expect(http.StatusCreated, "PUT", m.path, "{"+ids(m.shared)+
		`,"organization_guid":"org","space_guid":"space"}`); err != nil {
		return result, err
	}
	status, answer, err := m.client.do("PUT", m.path+"/service_bindings/"+m.binding, "{"+ids(m.shared)+"}")
	if err != nil || status != http.StatusCreated {
		return result, errors.Join(err, fmt.Errorf("bind: status %d: %s", status, answer))
	}
	var binding struct{ Credentials audit.Credentials }
	if err := json.Unmarshal(answer, &binding); err != nil {
		return result, err
	}
	db, err := binding.Credentials.Open()
	if err != nil {
		return result, err
	}
	defer db.Close()
	if err := fillOrders(ctx, db, mebibytes); err != nil {
		return result, fmt.Errorf("fill the instance: %w", err)
	}
	w, err := startWriter(ctx, db)
	if err != nil {
		return result, err
	}
	select {
	case <-ctx.Done():
	case <-time.After(writeTime):
	}
	began, copying := time.Now(), time.Time{}
	err = m.client.operateSeen(ctx, "PATCH", m.path+"?accepts_incomplete=true", "{"+ids(m.dedicated)+"}", movePoll,
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
	if w.refused.IsZero() || min(len(before), len(starting), len(during)) < fewWrites {
		return result, fmt.Errorf("%d writes before the move, %d before rows were copied and %d then, the first refused at %v",
			len(before), len(starting), len(during), w.refused)
	}
	result = moved{ended.Sub(w.refused), percentile(before, 99), percentile(starting, 99), percentile(during, 99)}
	return result, m.client.operate(ctx, "DELETE", fmt.Sprintf("%s?accepts_incomplete=true&service_id=%s&plan_id=%s",
		m.path, m.serviceID, m.dedicated), "", movePoll)
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
