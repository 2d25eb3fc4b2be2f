//go:build faults

package stage

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mysql-broker/broker/catalog"
	"mysql-broker/cmd/mysql-broker/app"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/backup/objectstore"
	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher/launchers"
	"mysql-broker/test/logged"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// broker is a broker in this process.
type broker struct {
	*testdrive.Broker
	name  string
	app   *app.App
	cut   cutter
	log   logged.Text
	dying atomic.Bool     // no response counts any more
	alive context.Context // until it is killed
	end   context.CancelFunc
	order atomic.Pointer[func(point string) testdrive.Word]

	mu      sync.Mutex
	leases  []func()  // have those that it took expire, as its clock does
	expired time.Time // when the leases that it had taken did
}

// play is what every broker is started with.
type play struct {
	name    string
	config  config.Config
	objects objectstore.Store
	servers *playedServers

	order   func(point string) testdrive.Word // what a broker is told before it starts; nil for nothing
	started int
	closing sync.WaitGroup
}

// start starts a broker. It outlives the test that does so.
func (p *play) start() (*broker, error) {
	p.started++
	b := &broker{name: fmt.Sprintf("%s.%d", p.name, p.started)}
	b.alive, b.end = context.WithCancel(context.Background())
	cfg := p.config
	cfg.Dial, cfg.Shared = b.cut.Dial, slices.Clone(cfg.Shared)
	for n := range cfg.Shared {
		cfg.Shared[n].Admin.Dial = b.cut.Dial
	}
	cfg.Launchers = []launchers.Named{{Name: launcherName, Kind: launcherName, Configured: casting{p.servers, &b.cut}}}
	cfg.Backups = config.In(cutStore{p.objects, &b.cut})
	plans, err := catalog.Load(cfg.CatalogPath)
	if err != nil {
		return nil, err
	}
	b.obey(p.order)
	actors.Store(b.name, b)
	pprof.Do(b.alive, pprof.Labels(label, b.name), func(ctx context.Context) {
		b.app, err = app.Start(ctx, cfg, plans, slog.New(slog.NewJSONHandler(&b.log, nil)))
	})
	switch {
	case b.dying.Load() && err != nil: // it was killed before it could start
		b.Broker = &testdrive.Broker{}
		return b, nil
	case err != nil:
		return nil, fmt.Errorf("start a broker: %w", err)
	}
	b.Broker = &testdrive.Broker{URL: fmt.Sprintf("http://127.0.0.1:%d", b.app.Port()), Username: testdrive.Username,
		Password: testdrive.Password}
	return b, nil
}

// come is called when the broker has come to a fault point.
func (b *broker) come(point string) testdrive.Word {
	if b.alive.Err() != nil {
		runtime.Goexit()
	}
	order := b.order.Load()
	if order == nil {
		return testdrive.GoOn
	}
	word := (*order)(point)
	if word == testdrive.Die {
		b.kill()
	}
	if b.alive.Err() != nil {
		runtime.Goexit()
	}
	return word
}

// lease is called when the broker has taken one. If it asked for it before the others expired, it expires, too.
func (b *broker) lease(since time.Time, expire func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leases = append(b.leases, expire)
	if since.Before(b.expired) {
		expire()
	}
}

// expireLeases has the broker's leases expire on its own clock.
func (b *broker) expireLeases() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expired = time.Now()
	for _, expire := range b.leases {
		expire()
	}
}

// kill cuts the broker off, whose clients get no responses any more.
func (b *broker) kill() {
	b.dying.Store(true)
	b.cut.cut()
	b.end()
}

// obey sets what happens to the broker at its points; nil lets it go on.
func (b *broker) obey(order func(point string) testdrive.Word) {
	if order == nil {
		b.order.Store(nil)
		return
	}
	b.order.Store(&order)
}

// send is SendFor, and returns an error when the broker is killed.
func (b *broker) send(method, path string, body any) (testdrive.Response, error) {
	r, err := b.SendFor(b.alive, method, path, body, nil)
	if b.dying.Load() { // it has answered that it was cut off
		<-b.alive.Done()
		return testdrive.Response{}, errCut
	}
	return r, err
}

// bury ends what is left of a killed broker, without waiting.
func (p *play) bury(b *broker) { p.closing.Go(func() { p.close(b) }) }

// close stops a broker. Its name stays known, for goroutines of it that have not ended.
func (p *play) close(b *broker) {
	if b.app != nil {
		b.app.Close()
	}
	b.end()
	b.app = nil
}

// showLog prints what a broker has logged.
func (b *broker) showLog(t *testing.T) { t.Logf("log of %s:\n%s", b.name, &b.log) }

// cutStore is an object store in which a killed broker changes nothing.
type cutStore struct {
	objectstore.Store
	cut *cutter
}

func (s cutStore) Put(ctx context.Context, name string, data []byte) error {
	if err := s.cut.pass(); err != nil {
		return err
	}
	return s.Store.Put(ctx, name, data)
}

func (s cutStore) Create(ctx context.Context, name string, data []byte) error {
	if err := s.cut.pass(); err != nil {
		return err
	}
	return s.Store.Create(ctx, name, data)
}

func (s cutStore) Delete(ctx context.Context, name string) error {
	if err := s.cut.pass(); err != nil {
		return err
	}
	return s.Store.Delete(ctx, name)
}

// Each broker's goroutines carry its name as a label, which they inherit from the one that started it. So a fault point
// knows whose it is, although brokers share the process.
const label = "broker"

// actors are the brokers that have been started, by name.
var actors sync.Map

func TestMain(m *testing.M) {
	// Only then do stack traces show labels. https://pkg.go.dev/runtime#hdr-Environment_Variables
	os.Setenv("GODEBUG", "tracebacklabels=1")
	fault.Hook = func(point string) (fail bool) {
		b, found := actors.Load(caller())
		return found && b.(*broker).come(point) == testdrive.Fail
	}
	fault.LeaseHook = func(since time.Time, expire func()) {
		if b, found := actors.Load(caller()); found {
			b.(*broker).lease(since, expire)
		}
	}
	servers.Main(m)
}

var labelled = regexp.MustCompile(`labels:\{"` + label + `": "([^"]*)"\}`)

// caller is the label of the goroutine that calls it.
func caller() string {
	var trace [256]byte
	first, _, _ := bytes.Cut(trace[:runtime.Stack(trace[:], false)], []byte("\n"))
	if found := labelled.FindSubmatch(first); found != nil {
		return string(found[1])
	}
	return ""
}
