package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	httpRounds  = 16
	httpTime    = 1500 * time.Millisecond // of one side's turn
	httpClients = 16
)

// bareNote describes the raw reference for requests.
const bareNote = "Both sides get the same requests over the same number of connections (16) and run with GOMAXPROCS=1. " +
	"The reference is a handler right on net/http, which logs and counts nothing and asks for no password: for a poll " +
	"it does one prepared point select through pgx on the same row, for the catalog it writes the same bytes. Client " +
	"and PostgreSQL share the machine with them. Polls are for an operation that has succeeded."

// measureHTTP compares the requests that platforms send most: polls of last_operation, and the catalog.
func measureHTTP(ctx context.Context, b *bench) error {
	environment, err := b.environment(ctx, b.servers[0])
	if err != nil {
		return err
	}
	environment["GOMAXPROCS"] = "1"
	r, err := b.startBroker(ctx, environment)
	if err != nil {
		return err
	}
	poll, catalog, err := b.requests(ctx, r)
	if err != nil {
		return err
	}
	bare, err := b.startBare(ctx, environment, catalog.answer)
	if err != nil {
		return err
	}
	for _, q := range []repeatedRequest{poll, catalog} {
		side := func(of *broker) func(context.Context) (figures, error) {
			return func(ctx context.Context) (figures, error) { return q.repeat(ctx, of) }
		}
		c, err := compare(ctx, b.rounds(httpRounds), side(r), side(bare))
		if err != nil {
			return fmt.Errorf("%s: %w", q.what, err)
		}
		b.report.add(c.row(perSecond, Row{What: q.what + ", one core", Unit: "1/s", Goal: atLeast(0.8), Note: bareNote}))
		b.report.add(c.row("p99", Row{What: q.what + ", one core, p99", Unit: "ms", Goal: atMost(1 / 0.8)}))
		b.report.add(c.row("CPU", Row{What: q.what + ", CPU time", Unit: "µs", Detail: true}))
	}
	if err := r.stop(ctx); err != nil {
		return err
	}
	return bare.stop(ctx)
}

// repeatedRequest is a request that is sent unchanged again and again.
type repeatedRequest struct {
	what   string
	bytes  []byte
	answer []byte // of the broker
}

// requests creates an instance, and returns a poll of its operation and a request for the catalog.
func (b *bench) requests(ctx context.Context, r *broker) (poll, catalog repeatedRequest, err error) {
	c, err := newClient(ctx, r.addr)
	if err != nil {
		return poll, catalog, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	serviceID, planID, err := b.plan("shared-async")
	if err != nil {
		return poll, catalog, err
	}
	instance := "/v2/service_instances/" + uuid.NewString()
	body := fmt.Sprintf(`{"service_id":%q,"plan_id":%q,"organization_guid":"org","space_guid":"space"}`, serviceID, planID)
	status, answer, err := c.do("PUT", instance+"?accepts_incomplete=true", body)
	if err != nil || status != http.StatusAccepted {
		return poll, catalog, errors.Join(err, fmt.Errorf("provision: status %d: %s", status, answer))
	}
	var accepted struct{ Operation string }
	if err := json.Unmarshal(answer, &accepted); err != nil {
		return poll, catalog, err
	}
	if poll, err = c.repeated("polls", instance+"/last_operation?operation="+accepted.Operation); err != nil {
		return poll, catalog, err
	}
	for deadline := time.Now().Add(startTime); !bytes.Contains(poll.answer, []byte(`"succeeded"`)); {
		if time.Now().After(deadline) {
			return poll, catalog, fmt.Errorf("the instance is not made: %s", poll.answer)
		}
		if _, poll.answer, err = c.do("GET", instance+"/last_operation?operation="+accepted.Operation, ""); err != nil {
			return poll, catalog, err
		}
	}
	catalog, err = c.repeated("catalog", "/v2/catalog")
	return poll, catalog, err
}

// repeated sends the request once, and returns it with its response.
func (c *client) repeated(what, path string) (repeatedRequest, error) {
	status, answer, err := c.do("GET", path, "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("GET %s: status %d: %s", path, status, answer)
	}
	return repeatedRequest{what: what, answer: answer, bytes: fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\n"+
		"Authorization: %s\r\nX-Broker-Api-Version: 2.17\r\nX-Broker-Api-Request-Identity: %s\r\n\r\n", path, c.addr,
		authorization, uuid.NewString())}, err
}

// repeat sends the request over many connections at once, until httpTime is over.
func (q repeatedRequest) repeat(ctx context.Context, to *broker) (figures, error) {
	clients := make([]*client, httpClients)
	for i := range clients {
		var err error
		if clients[i], err = newClient(ctx, to.addr); err != nil {
			return nil, err
		}
		defer clients[i].close()
		if err := clients[i].exchange(q.bytes); err != nil {
			return nil, err
		}
	}
	each := make([][]time.Duration, len(clients))
	errs := make([]error, len(clients))
	before, err := cpuTime(to.pid)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			for last := begun; errs[i] == nil && last.Sub(begun) < httpTime; {
				errs[i] = c.exchange(q.bytes)
				now := time.Now()
				each[i] = append(each[i], now.Sub(last))
				last = now
			}
		})
	}
	all.Wait()
	elapsed := time.Since(begun)
	after, err := cpuTime(to.pid)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	var took []time.Duration
	for _, durations := range each {
		took = append(took, durations...)
	}
	return figures{perSecond: float64(len(took)) / elapsed.Seconds(), "p99": percentile(took, 99),
		"CPU": float64(after-before) / float64(time.Microsecond) / float64(len(took))}, nil
}

// exchange sends a request unchanged, and skips a response 200 with a Content-Length, which both sides send.
func (c *client) exchange(request []byte) error {
	if err := c.conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	status, err := c.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 200 ")) {
		return fmt.Errorf("answer %q", status)
	}
	length, err := contentLength(c.in)
	if err != nil {
		return err
	}
	_, err = c.in.Discard(length)
	return err
}

// contentLength reads the rest of a response's head.
func contentLength(in *bufio.Reader) (length int, err error) {
	length = -1
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if len(line) == len("\r\n") {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
	}
	if length < 0 {
		return 0, errors.New("an answer without a Content-Length")
	}
	return length, nil
}

// clockTick is the unit of /proc/PID/stat's times: 1/100 s on every architecture that Go runs on. proc_pid_stat(5).
const clockTick = 10 * time.Millisecond

// cpuTime is the CPU time of a process, in user and in system mode.
func cpuTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name before it may contain anything
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("unexpected /proc/%d/stat: %s", pid, stat)
	}
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[12])
	return time.Duration(user+system) * clockTick, err
}
