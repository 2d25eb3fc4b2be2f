package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mysql-broker/test/audit"
	"mysql-broker/test/testdrive"
)

const (
	atOnce       = 12              // operations, each with a broker of its own to be killed
	launchAtOnce = 5               // of them on dedicated servers, whose starts are slow
	afterEnd     = 2 * time.Second // how long a broker may take from the end of its task to its last point
	pauseEach    = 9               // in the short form, how many points there are for each at which a broker is paused
	attempts     = 4               // to meet a point that another broker passed because it had claimed the task first
)

// kill is an operation whose broker dies at a point. Without a point it only records those that it passes.
type kill struct {
	workflow
	end      point
	mitigate bool // the platform, without a response, deletes instead of repeating
	pause    bool // the broker is stopped instead, and goes on once all is over

	target  target
	journey *journey
	answers <-chan testdrive.Response
	taken   bool // another broker took the task over
	tries   int
	met     bool // the broker died at the point, or passed all that there are
}

// Every operation is cut short at every point that it passes. Others finish it within the time that the lease allows,
// and whatever the platform then does, nothing is left over and nothing is missing.
func testKills(t *testing.T, c chaos) {
	c.kill(t, slices.DeleteFunc(workflows(t), workflow.copies))
}

// testCopyKills kills brokers in the operations that copy data.
func testCopyKills(t *testing.T, c chaos) {
	c.kill(t, slices.DeleteFunc(workflows(t), func(f workflow) bool { return !f.copies() }))
}

func (c chaos) kill(t *testing.T, all []workflow) {
	env := retaining(t)
	env["LAUNCHER_SPARES"] = "2"
	w := newWorld(t, c.flavour, c.tally, env)
	host := audit.Instance{ID: "host"}
	if err := w.make(planNamed(t, "dedicated-small"), false, &host); err != nil {
		t.Fatal(err)
	}
	var clean []*kill
	for _, f := range slices.Concat(all, all) {
		clean = append(clean, &kill{workflow: f})
	}
	w.waves(t, clean, host)
	var kills []*kill
	for n, k := range clean[:len(all)] {
		points := inBoth(k.journey.points(), clean[n+len(all)].journey.points())
		t.Logf("%s passes %d points: %v", k, len(points), points)
		w.tally.pointsPassed(len(points))
		for n, p := range points {
			if long() || (n-c.share)%k.sparse(8) == 0 {
				kills = append(kills, &kill{workflow: k.workflow, end: p, mitigate: n/8%2 == 0})
			}
			if !k.plan.dedicated() && (k.plan.async == "" || k.copies()) && !p.ofLauncher() &&
				(long() || n%k.sparse(pauseEach) == c.half) {
				kills = append(kills, &kill{workflow: k.workflow, end: p, mitigate: n/4%2 == 0, pause: true})
			}
		}
	}
	w.waves(t, kills, host)
}

// ofLauncher reports whether a broker passes the point while it holds the lock of a server's directory. Were it paused
// there, all others would wait until it goes on.
func (p point) ofLauncher() bool {
	call, _, _ := strings.Cut(p.name, ": ")
	return slices.Contains([]string{"launch", "resize", "suspend", "destroy"}, call)
}

// sparse is the step with which the short form picks points. Copies take longer, and pass more points.
func (k *kill) sparse(n int) int {
	if k.copies() {
		return 2 * n
	}
	return n
}

// inBoth drops the points that a workflow passed only once: they were those of another task that its broker took over.
func inBoth(some, others []point) []point {
	return slices.DeleteFunc(some, func(p point) bool { return !slices.Contains(others, p) })
}

// waves carries out all, some at a time: while those of one wave wait for leases to run out, the next is prepared. The
// brokers that are to die next stand by meanwhile, and take over like any other.
func (w *world) waves(t *testing.T, todo []*kill, host audit.Instance) {
	t.Helper()
	wave, todo := next(todo)
	victims := w.ready(t, wave, host)
	for len(wave) > 0 {
		errs := make([]error, len(wave))
		var running sync.WaitGroup
		for n, k := range wave {
			k.journey, k.met = newJourney(k.end, k.pause, func() testdrive.Word { return k.stop(t, victims[n]) }), false
			w.watch.order(victims[n], k.journey.pass)
		}
		for n, k := range wave {
			running.Go(func() { errs[n] = k.run(w, victims[n]) })
		}
		following, rest := next(todo)
		spare := w.ready(t, following, host)
		running.Wait()
		for n, k := range wave {
			if errs[n] != nil {
				t.Errorf("%s, stopped at %v: %v", k, k.end, errs[n])
			}
		}
		w.check(t, "after a wave of kills")
		for n, k := range wave {
			if !k.pause {
				victims[n].Kill(t)
			}
			if k.tries++; !k.met && k.tries == attempts {
				t.Errorf("%s: no broker came to %v", k, k.end)
			} else if !k.met {
				rest = append(rest, k)
			}
		}
		each(t, wave, func(k *kill) error { return w.clear(&k.target, host) })
		w.wake(t, wave, victims)
		wave, victims, todo = following, spare, rest
		if len(wave) == 0 {
			wave, todo = next(todo)
			victims = w.ready(t, wave, host)
		}
	}
	w.check(t, "after the last kill")
}

// stop ends the broker, or pauses it.
func (k *kill) stop(t *testing.T, victim *testdrive.Broker) testdrive.Word {
	if !k.pause {
		return testdrive.Die
	}
	victim.Pause(t)
	return testdrive.GoOn // it hears of that when it goes on
}

// wake lets the brokers that were paused go on, when others have done their work and its outcome has been deleted.
// Nothing of what they still do may leave anything.
func (w *world) wake(t *testing.T, wave []*kill, victims []*testdrive.Broker) {
	t.Helper()
	for n, k := range wave {
		if k.pause {
			victims[n].Signal(t, syscall.SIGCONT)
		}
	}
	paused := false
	for n, k := range wave {
		if !k.pause {
			continue
		}
		paused = true
		select {
		case <-k.answers:
		case <-time.After(patience):
			t.Errorf("%s, paused at %v: no answer when the broker went on", k, k.end)
		}
		if k.copies() && k.taken {
			victims[n].AwaitLog(t, `"kind":"`+k.kind+`"`) // it says that its task was interrupted, or has ended elsewhere
		}
		victims[n].Kill(t)
	}
	if paused {
		w.check(t, "after paused brokers went on")
	}
}

// next takes as many as can be done at once.
func next(todo []*kill) (wave, rest []*kill) {
	launching := 0
	for _, k := range todo {
		if len(wave) == atOnce || k.launches() && launching == launchAtOnce {
			rest = append(rest, k)
			continue
		}
		if k.launches() {
			launching++
		}
		wave = append(wave, k)
	}
	return wave, rest
}

// ready makes what a wave needs, and the brokers that will die in it.
func (w *world) ready(t *testing.T, wave []*kill, host audit.Instance) []*testdrive.Broker {
	t.Helper()
	victims, ready := w.victims(t, len(wave))
	each(t, wave, func(k *kill) (err error) {
		k.target, err = w.prepare(t.Context(), k.workflow, host)
		return err
	})
	ready()
	return victims
}

func each(t *testing.T, wave []*kill, do func(*kill) error) {
	t.Helper()
	errs := make([]error, len(wave))
	var running sync.WaitGroup
	for n, k := range wave {
		running.Go(func() { errs[n] = do(k) })
	}
	running.Wait()
	for n, k := range wave {
		if errs[n] != nil {
			t.Errorf("%s: %v", k, errs[n])
		}
	}
}

// run sends the operation to the victim, has it die, and does what a platform does then.
func (k *kill) run(w *world, victim *testdrive.Broker) error {
	q := k.target.request()
	k.answers = victim.Begin(q.method, q.path, q.body)
	var answer testdrive.Response
	var answered bool
	select {
	case answer, answered = <-k.answers:
	case died := <-k.journey.killed:
		return k.goOn(w, q, died)
	}
	if !answered { // the connection told of the death first
		return k.goOn(w, q, <-k.journey.killed)
	}
	if answer.Status == http.StatusAccepted {
		return k.follow(w, q, answer)
	}
	got, err := w.conclude(q, answer)
	if err == nil {
		err = w.learn(&k.target, q, got)
	}
	return errors.Join(err, k.check(w, q))
}

// follow polls for an operation that was accepted, while its broker dies.
func (k *kill) follow(w *world, q request, accepted testdrive.Response) error {
	takeover := make(chan error, 1)
	over, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case died := <-k.journey.killed:
			takeover <- k.takeover(w, q, died, make(chan struct{}))
		case <-over.Done():
			takeover <- nil
		}
	}()
	got, err := w.conclude(q, accepted)
	if err == nil && got.failed {
		err = errors.New(got.String("description"))
	}
	if err == nil {
		err = w.learn(&k.target, q, got)
	}
	select { // the last point comes after the end is recorded
	case takenOver := <-takeover:
		return errors.Join(err, takenOver)
	case <-k.journey.ended:
	case <-time.After(afterEnd): // another broker worked on it
	}
	select {
	case died := <-k.journey.killed:
		return errors.Join(err, k.takeover(w, q, died, make(chan struct{})))
	default:
	}
	cancel()
	return errors.Join(err, <-takeover, k.check(w, q))
}

// goOn is what happens when there will be no answer.
func (k *kill) goOn(w *world, q request, died time.Time) error {
	takeover := make(chan error, 1)
	lookedUp := make(chan struct{})
	go func() { takeover <- k.takeover(w, q, died, lookedUp) }()
	<-lookedUp
	if instead, possible := k.target.mitigation(); k.mitigate && possible {
		q = instead
	} else if k.mitigate && k.kind == update {
		return errors.Join(<-takeover, k.fetch(w))
	}
	got, err := w.run(q)
	if err == nil && got.failed {
		err = errors.New(got.String("description"))
	}
	if err == nil {
		err = w.learn(&k.target, q, got)
	}
	return errors.Join(err, <-takeover)
}

// fetch asks what has become of an update.
func (k *kill) fetch(w *world) error {
	deadline := time.Now().Add(patience)
	for {
		r, err := w.survivor().Send("GET", instancePath(k.target.instance.ID), nil, nil)
		if err != nil {
			return err
		}
		if r.Status == http.StatusOK {
			k.target.instance.PlanID = r.String("plan_id")
			w.tell(k.target.instance)
			if k.target.instance.PlanID == k.to.id {
				return w.learnMove(&k.target)
			}
			return nil
		}
		if r.Status != http.StatusUnprocessableEntity || time.Now().After(deadline) {
			return fmt.Errorf("fetch the instance: %d %s", r.Status, r.Raw)
		}
		time.Sleep(100 * time.Millisecond) // it is being updated
	}
}

// check finds out, of an operation that was only to be recorded, whether one broker did all of it.
func (k *kill) check(w *world, q request) error {
	if k.end != (point{}) {
		return nil
	}
	row, err := w.latestTask(context.Background(), q)
	points := k.journey.points()
	k.met = row.epoch == 1 && slices.Contains(points, point{k.kind + ": recorded", 1}) &&
		slices.Contains(points, point{k.kind + ": ended as succeeded", 1}) && !slices.ContainsFunc(points, k.foreign)
	return err
}

// foreign reports whether a point is of another task, which the broker took over meanwhile.
func (k *kill) foreign(p point) bool {
	if strings.HasPrefix(p.name, k.kind+": ") { // a task passes each of its steps once, and copies many chunks
		return p.nth > 1 && (strings.HasSuffix(p.name, ": begins") || strings.HasSuffix(p.name, ": done"))
	}
	return slices.ContainsFunc([]string{provision, update, bind, unbind, deprovision, backup, restore}, func(kind string) bool {
		return strings.HasPrefix(p.name, kind+": ")
	})
}

// takeover measures how long it takes until another broker has what the dead one had, if it had anything. lookedUp is
// closed once it is known what that was.
func (k *kill) takeover(w *world, q request, died time.Time, lookedUp chan struct{}) error {
	k.met = true
	if k.pause {
		w.tally.pause()
	} else {
		w.tally.kill()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	left, err := w.latestTask(ctx, q)
	close(lookedUp)
	if err != nil || left.state != "in progress" {
		return err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := w.latestTask(ctx, q)
		if err != nil {
			return fmt.Errorf("wait for a takeover: %w", err)
		}
		if now.state != "in progress" || now.owner != "" && now.owner != left.owner {
			after := time.Since(died)
			w.tally.takeover(after)
			k.taken = now.epoch > left.epoch
			if limit := takeoverLimit(); after > limit {
				return fmt.Errorf("taken over after %v, more than %v", after, limit)
			}
			return nil
		}
		<-tick.C
	}
}

// takeoverLimit is takeoverTime where the test has the machine to itself. Else, a dozen takeovers and other tests are
// under way at the same time.
func takeoverLimit() time.Duration {
	if long() {
		return takeoverTime
	}
	return patience
}

type taskRow struct {
	state, owner string
	epoch        int
}

// latestTask reads the newest task of what a request is about; none is fine.
func (w *world) latestTask(ctx context.Context, q request) (row taskRow, err error) {
	err = w.tasks.QueryRow(ctx, `SELECT coalesce(max(state), ''), coalesce(max(lease_owner), ''),
		coalesce(max(epoch), 0) FROM (
		SELECT state, lease_owner, epoch FROM task WHERE instance_id = $1 AND binding_id = $2 ORDER BY id DESC LIMIT 1) t`,
		q.instanceID, q.bindingID).Scan(&row.state, &row.owner, &row.epoch)
	return row, err
}
