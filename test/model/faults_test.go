package model

import (
	"context"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

// pauseTime is longer than a lease and what it takes to notice that it ran out.
const pauseTime = 12 * time.Second

// aim kills a broker at one of the next fault points that it comes to.
type aim struct {
	mu     sync.Mutex
	pid    int // 0: none
	points int // how many it may still pass
	struck bool
}

func (a *aim) at(pid, points int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pid, a.points, a.struck = pid, points, false
}

func (a *aim) decide(pid int, _ string) testdrive.Word {
	a.mu.Lock()
	defer a.mu.Unlock()
	if pid != a.pid || a.points < 0 {
		return testdrive.GoOn
	}
	if a.points--; a.points >= 0 {
		return testdrive.GoOn
	}
	a.struck = true
	return testdrive.Die
}

func (a *aim) hit() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.struck
}

// replicaFaults are what happens to brokers, one after the other. They are for the goroutine of the test.
var replicaFaults = map[string]func(w *world, random *rand.Rand){
	"kill":  (*world).kill,
	"pause": (*world).pause,
	"stop":  (*world).stop,
}

// kill kills a broker at a fault point or, if it comes to none, wherever it is, and starts another.
func (w *world) kill(random *rand.Rand) {
	defer w.fail(&w.trouble)()
	n := random.IntN(len(w.replicas))
	b := w.replicas[n].Load()
	w.aim.at(b.PID(), random.IntN(20))
	for limit := time.Now().Add(3 * time.Second); time.Now().Before(limit) && !w.aim.hit(); {
		time.Sleep(5 * time.Millisecond)
	}
	b.Kill(w.t)
	w.count("fault", "kill")
	w.start(n)
}

// pause lets a broker stand still for longer than its leases.
func (w *world) pause(random *rand.Rand) {
	defer w.fail(&w.trouble)()
	b := w.replicas[random.IntN(len(w.replicas))].Load()
	b.Signal(w.t, syscall.SIGSTOP)
	w.count("fault", "pause")
	time.Sleep(pauseTime)
	b.Signal(w.t, syscall.SIGCONT)
}

// stop ends a broker as an operator does, and starts another.
func (w *world) stop(random *rand.Rand) {
	defer w.fail(&w.trouble)()
	n := random.IntN(len(w.replicas))
	b := w.replicas[n].Load()
	b.Signal(w.t, syscall.SIGTERM)
	b.Wait(w.t)
	w.count("fault", "stop")
	w.start(n)
}

// outages are what happens to the servers and the way to them, one after the other.
var outages = map[string]func(w *world, random *rand.Rand){
	"PostgreSQL cut off":        func(w *world, _ *rand.Rand) { w.postgres.Cut() },
	"PostgreSQL silent":         func(w *world, random *rand.Rand) { silent(w.postgres, outageTime(random)) },
	"PostgreSQL long silent":    func(w *world, _ *rand.Rand) { silent(w.postgres, pauseTime) },
	"PostgreSQL's commits hang": (*world).hangCommits,
	"PostgreSQL reset":          func(w *world, random *rand.Rand) { reset(w.postgres, commits, random) },
	"PostgreSQL away":           func(w *world, random *rand.Rand) { away(w.postgres, outageTime(random)) },
	"MySQL cut off":             func(w *world, _ *rand.Rand) { w.mysql.Cut() },
	"MySQL silent":              func(w *world, random *rand.Rand) { silent(w.mysql, outageTime(random)) },
	"MySQL long silent":         func(w *world, _ *rand.Rand) { silent(w.mysql, pauseTime) },
	"MySQL reset":               func(w *world, random *rand.Rand) { reset(w.mysql, anything, random) },
	"MySQL away":                func(w *world, random *rand.Rand) { away(w.mysql, outageTime(random)) },
	"MySQL killed":              func(w *world, _ *rand.Rand) { w.killMySQL() },
}

// outage carries one out. Brokers start before it or after it.
func (w *world) outage(kind string, random *rand.Rand) {
	w.starting.Lock()
	defer w.starting.Unlock()
	defer w.fail(&w.trouble, &w.outages)()
	outages[kind](w, random)
	w.count("fault", kind)
}

// hangCommits has PostgreSQL keep each commit waiting for a standby that is not there. Brokers give it up, and PostgreSQL
// then says that it has committed.
func (w *world) hangCommits(random *rand.Rand) {
	set := func(names string) {
		for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + names + "'",
			"SELECT pg_reload_conf()"} {
			if _, err := w.records.Exec(context.Background(), statement); err != nil {
				w.wrong("%s: %v", statement, err)
			}
		}
	}
	set("nobody")
	time.Sleep(outageTime(random))
	set("")
}

func outageTime(random *rand.Rand) time.Duration {
	return time.Duration(1000+random.IntN(4000)) * time.Millisecond
}

// silent holds back what the connections that are open now carry. Later ones pass: what is held back may come to a
// server after others have taken over.
func silent(p *testdrive.Proxy, d time.Duration) {
	p.Freeze()
	time.Sleep(d)
	p.Release()
}

func away(p *testdrive.Proxy, d time.Duration) {
	p.Refuse(true)
	p.Cut()
	time.Sleep(d)
	p.Refuse(false)
}

// Requests whose responses are lost.
const (
	anything = ""
	// commits is the end of a pipeline, where PostgreSQL commits what has no COMMIT, and of most other requests.
	// https://www.postgresql.org/docs/current/protocol-message-formats.html#PROTOCOL-MESSAGE-FORMATS-SYNC
	commits = "S\x00\x00\x00\x04"
)

// reset lets some requests reach a server, and resets their connections before the responses come back.
func reset(p *testdrive.Proxy, request string, random *rand.Rand) {
	for end := time.Now().Add(outageTime(random)); time.Now().Before(end); {
		select {
		case <-p.CutAnswer(request):
		case <-time.After(time.Until(end)):
		}
		time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
	}
	p.Cut()
}

// killMySQL kills the shared server, which its launcher starts again.
func (w *world) killMySQL() {
	for _, pid := range testdrive.Mysqlds(w.t, w.mysqlHome) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			w.wrong("kill MySQL: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), limits.Stuck)
	defer cancel()
	for w.admin.PingContext(ctx) != nil {
		if ctx.Err() != nil {
			w.wrong("MySQL did not come up again")
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}
