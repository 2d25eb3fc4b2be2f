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
	"mysql-broker/test/limits"
	"mysql-broker/test/platform"
	"mysql-broker/test/testdrive"
)

const (
	afterEnd  = 2 * time.Second // how long a broker may take from the end of its task to its last point
	pauseEach = 9               // how many points there are for each at which a broker is paused
	attempts  = 4               // to meet a point that another broker passed because it had claimed the task first
)

// atOnce is how many operations run side by side, each with a broker of its own to be killed, and how many of them on
// dedicated servers, whose starts are slow. In the long form, each waits until a lease runs out.
func atOnce() (operations, launches int) {
	if long() {
		return 12, 5
	}
	return 3, 2
}

// kill is an operation whose broker dies at a point. Without a point it only records those that it passes.
type kill struct {
	platform.Workflow
	end      platform.Point
	mitigate bool // the platform, without a response, deletes instead of repeating
	pause    bool // the broker is stopped instead, and goes on once all is over

	target  platform.Target
	journey *platform.Journey
	answers <-chan testdrive.Response
	taken   bool // another broker took the task over
	tries   int
	met     bool // the broker died at the point, or passed all that there are
}

// Every operation is cut short at points that it passes. Others finish it within the time that the lease allows, and
// whatever the platform then does, nothing is left over and nothing is missing.
func testKills(t *testing.T, c chaos) {
	c.kill(t, slices.DeleteFunc(platform.Workflows(t), platform.Workflow.Copies))
}

// testCopyKills kills brokers in the operations that copy data.
func testCopyKills(t *testing.T, c chaos) {
	c.kill(t, slices.DeleteFunc(platform.Workflows(t), func(f platform.Workflow) bool { return !f.Copies() }))
}

func (c chaos) kill(t *testing.T, all []platform.Workflow) {
	w := newWorld(t, c.flavour, c.tally, platform.Retaining(t))
	host := audit.Instance{ID: "host"}
	if err := w.Make(platform.NamedPlan(t, "dedicated-small"), false, &host); err != nil {
		t.Fatal(err)
	}
	var clean []*kill
	for _, f := range slices.Concat(all, all) {
		clean = append(clean, &kill{Workflow: f})
	}
	w.waves(t, clean, host)
	var kills []*kill
	for n, k := range clean[:len(all)] {
		points := platform.InBoth(k.journey.Points(), clean[n+len(all)].journey.Points())
		t.Logf("%s passes %d points: %v", k, len(points), points)
		w.tally.pointsPassed(len(points))
		for n, p := range points {
			if k.always(p) || (n-c.share)%k.sparse(8) == 0 {
				kills = append(kills, &kill{Workflow: k.Workflow, end: p, mitigate: n/8%2 == 0})
			}
			if !k.Plan.Dedicated() && (k.Plan.Async == "" || k.Copies()) && !p.OfLauncher() &&
				(n-c.share)%k.sparse(pauseEach) == 0 {
				kills = append(kills, &kill{Workflow: k.Workflow, end: p, mitigate: n/4%2 == 0, pause: true})
			}
		}
	}
	w.waves(t, kills, host)
}

// always reports whether the long form kills a broker at a point whatever the share: where the launcher works on files
// and processes, which test/stage plays.
func (k *kill) always(p platform.Point) bool { return long() && p.OfLauncher() && !k.Copies() }

// sparse is the step with which points are picked. Copies take longer, and pass more points.
func (k *kill) sparse(n int) int {
	if k.Copies() {
		return 2 * n
	}
	return n
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
			k.journey, k.met = platform.NewJourney(k.end, k.pause, func() testdrive.Word { return k.stop(t, victims[n]) }), false
			w.watch.order(victims[n], k.journey.Pass)
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
		w.Check(t, "after a wave of kills")
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
		each(t, wave, func(k *kill) error { return w.Clear(&k.target, host) })
		w.wake(t, wave, victims)
		wave, victims, todo = following, spare, rest
		if len(wave) == 0 {
			wave, todo = next(todo)
			victims = w.ready(t, wave, host)
		}
	}
	w.Check(t, "after the last kill")
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
		case <-time.After(limits.Stuck):
			t.Errorf("%s, paused at %v: no answer when the broker went on", k, k.end)
		}
		if k.Copies() && k.taken {
			victims[n].AwaitLog(t, `"kind":"`+k.Kind+`"`) // it says that its task was interrupted, or has ended elsewhere
		}
		victims[n].Kill(t)
	}
	if paused {
		w.Check(t, "after paused brokers went on")
	}
}

// next takes as many as can be done at once.
func next(todo []*kill) (wave, rest []*kill) {
	operations, launches := atOnce()
	launching := 0
	for _, k := range todo {
		if len(wave) == operations || k.Launches() && launching == launches {
			rest = append(rest, k)
			continue
		}
		if k.Launches() {
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
		k.target, err = w.Prepare(t.Context(), k.Workflow, host)
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
	q := k.target.Request()
	k.answers = victim.Begin(q.Method, q.Path, q.Body)
	var answer testdrive.Response
	var answered bool
	select {
	case answer, answered = <-k.answers:
	case died := <-k.journey.Killed:
		return k.goOn(w, q, died)
	}
	if !answered { // the connection told of the death first
		return k.goOn(w, q, <-k.journey.Killed)
	}
	if answer.Status == http.StatusAccepted {
		return k.follow(w, q, answer)
	}
	got, err := w.Conclude(q, answer)
	if err == nil {
		err = w.Learn(&k.target, q, got)
	}
	return errors.Join(err, k.check(w, q))
}

// follow polls for an operation that was accepted, while its broker dies.
func (k *kill) follow(w *world, q platform.Request, accepted testdrive.Response) error {
	takeover := make(chan error, 1)
	over, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case died := <-k.journey.Killed:
			takeover <- k.takeover(w, q, died, make(chan struct{}))
		case <-over.Done():
			takeover <- nil
		}
	}()
	got, err := w.Conclude(q, accepted)
	if err == nil && got.Failed {
		err = errors.New(got.String("description"))
	}
	if err == nil {
		err = w.Learn(&k.target, q, got)
	}
	select { // the last point comes after the end is recorded
	case takenOver := <-takeover:
		return errors.Join(err, takenOver)
	case <-k.journey.Ended:
	case <-time.After(afterEnd): // another broker worked on it
	}
	select {
	case died := <-k.journey.Killed:
		return errors.Join(err, k.takeover(w, q, died, make(chan struct{})))
	default:
	}
	cancel()
	return errors.Join(err, <-takeover, k.check(w, q))
}

// goOn is what happens when there will be no answer.
func (k *kill) goOn(w *world, q platform.Request, died time.Time) error {
	takeover := make(chan error, 1)
	lookedUp := make(chan struct{})
	go func() { takeover <- k.takeover(w, q, died, lookedUp) }()
	<-lookedUp
	if instead, possible := k.target.Mitigation(); k.mitigate && possible {
		q = instead
	} else if k.mitigate && k.Kind == platform.Update {
		return errors.Join(<-takeover, w.LearnUpdate(&k.target))
	}
	got, err := w.Run(q)
	if err == nil && got.Failed {
		err = errors.New(got.String("description"))
	}
	if err == nil {
		err = w.Learn(&k.target, q, got)
	}
	return errors.Join(err, <-takeover)
}

// check finds out, of an operation that was only to be recorded, whether one broker did all of it.
func (k *kill) check(w *world, q platform.Request) error {
	if k.end != (platform.Point{}) {
		return nil
	}
	row, err := w.LatestTask(context.Background(), q)
	points := k.journey.Points()
	k.met = row.Epoch == 1 && slices.Contains(points, platform.Point{Name: k.Kind + ": recorded", Nth: 1}) &&
		slices.Contains(points, platform.Point{Name: k.Kind + ": ended as succeeded", Nth: 1}) && !slices.ContainsFunc(points, k.foreign)
	return err
}

// foreign reports whether a point is of another task, which the broker took over meanwhile.
func (k *kill) foreign(p platform.Point) bool {
	if strings.HasPrefix(p.Name, k.Kind+": ") { // a task passes each of its steps once, and copies many chunks
		return p.Nth > 1 && (strings.HasSuffix(p.Name, ": begins") || strings.HasSuffix(p.Name, ": done"))
	}
	return slices.ContainsFunc([]string{platform.Provision, platform.Update, platform.Bind, platform.Unbind,
		platform.Deprovision, platform.Backup, platform.Restore}, func(kind string) bool {
		return strings.HasPrefix(p.Name, kind+": ")
	})
}

// takeover measures how long it takes until another broker has what the dead one had, if it had anything. lookedUp is
// closed once it is known what that was.
func (k *kill) takeover(w *world, q platform.Request, died time.Time, lookedUp chan struct{}) error {
	k.met = true
	interval := limits.Watch()
	if k.pause {
		w.tally.pause()
	} else {
		w.tally.kill()
	}
	ctx, cancel := context.WithTimeout(context.Background(), limits.Stuck)
	defer cancel()
	left, err := w.LatestTask(ctx, q)
	close(lookedUp)
	if err != nil || left.State != "in progress" {
		return err
	}
	if !long() { // which has the real lease run out
		if err := w.endLease(ctx, q, left.Owner); err != nil {
			return err
		}
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := w.LatestTask(ctx, q)
		if err != nil {
			return fmt.Errorf("wait for a takeover: %w", err)
		}
		if now.State != "in progress" || now.Owner != "" && now.Owner != left.Owner {
			after := time.Since(died)
			w.tally.takeover(after)
			k.taken = now.Epoch > left.Epoch
			interval.Prompt(w.t, "a takeover", after, takeoverTime)
			return nil
		}
		<-tick.C
	}
}

// endLease ends the lease of a dead broker, so that nobody waits until it runs out.
func (w *world) endLease(ctx context.Context, q platform.Request, owner string) error {
	_, err := w.Tasks.Exec(ctx, `UPDATE task SET lease_until = now()
		WHERE instance_id = $1 AND binding_id = $2 AND state = 'in progress' AND lease_owner = $3`, q.InstanceID, q.BindingID, owner)
	return err
}
