package platform

import (
	"slices"
	"strings"
	"sync"

	"mysql-broker/test/testdrive"
)

// Point is one that a workflow passes: the nth of that name.
type Point struct {
	Name string
	Nth  int
}

// Next is the point of a name that comes after those.
func Next(seen []Point, name string) Point {
	next := Point{name, 1}
	for _, before := range seen {
		if before.Name == name {
			next.Nth++
		}
	}
	return next
}

// Journey follows one broker through its points, up to the one at which it dies or is paused, if any.
type Journey struct {
	mu     sync.Mutex
	end    Point
	stop   func() testdrive.Word // ends or pauses the broker
	seen   []Point
	Ended  chan struct{} // closed at the last point of a task that succeeded, unless the broker dies there
	finish func()
}

// NewJourney makes a journey. stop is called at its end.
func NewJourney(end Point, stop func() testdrive.Word) *Journey {
	ended := make(chan struct{})
	return &Journey{end: end, stop: stop, Ended: ended, finish: sync.OnceFunc(func() { close(ended) })}
}

// Pass is what the broker does at a point.
func (j *Journey) Pass(name string) testdrive.Word {
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case <-j.Ended: // it works on something else by now
		return testdrive.GoOn
	default:
	}
	if strings.HasSuffix(name, ": KILL ?") { // whether there are sessions to kill is up to chance
		return testdrive.GoOn
	}
	if kind, _, ends := strings.Cut(name, ": ended as "); ends && !slices.ContainsFunc(j.seen, func(p Point) bool {
		return strings.HasPrefix(p.Name, kind+": ")
	}) { // of a task that was recorded as ended before the journey began
		return testdrive.GoOn
	}
	here := Next(j.seen, name)
	j.seen = append(j.seen, here)
	word := testdrive.GoOn
	if here == j.end {
		word = j.stop()
	}
	if word != testdrive.Die && strings.HasSuffix(name, ": ended as succeeded") {
		j.finish()
	}
	return word
}

// Points are those that were passed so far.
func (j *Journey) Points() []Point {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]Point(nil), j.seen...)
}

// InBoth drops the points that a workflow passed only once: they were those of another task that its broker took over.
func InBoth(some, others []Point) []Point {
	return slices.DeleteFunc(some, func(p Point) bool { return !slices.Contains(others, p) })
}

// OfLauncher reports whether a broker passes the point while it holds the lock of a server's directory. Were it paused
// there, all others would wait until it goes on.
func (p Point) OfLauncher() bool {
	call, _, _ := strings.Cut(p.Name, ": ")
	return slices.Contains([]string{"launch", "resize", "suspend", "destroy"}, call)
}
