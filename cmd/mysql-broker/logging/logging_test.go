package logging

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// gate is where lines go. Until it is opened, a write waits, as one to a pipe does whose reader is busy.
type gate struct {
	opened chan struct{}
	mu     sync.Mutex
	writes []string
}

func shutGate() *gate { return &gate{opened: make(chan struct{})} }

func openGate() *gate {
	g := shutGate()
	close(g.opened)
	return g
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.opened
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes = append(g.writes, string(p))
	return len(p), nil
}

func (g *gate) written() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.writes
}

// A line is written though no other one follows and nobody asks for it.
func TestLineIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := openGate()
		log, finish := New(g, slog.LevelInfo)
		defer finish()
		for n := 1; n <= 2; n++ {
			log.Info("a line", "n", n)
			synctest.Wait() // which no timer takes part in
			if got := g.written(); len(got) != n || !strings.Contains(got[n-1], fmt.Sprintf(`"n":%d`, n)) {
				t.Fatalf("written after line %d: %q", n, got)
			}
		}
	})
}

// What gathers while a write takes its time is written by one more, and all of it is there, in order, at the end.
func TestLinesGather(t *testing.T) {
	t.Parallel()
	g := shutGate()
	log, finish := New(g, slog.LevelInfo)
	const lines = 100
	for n := range lines {
		log.Info("a line", "n", n)
	}
	close(g.opened)
	finish()
	if got := len(g.written()); got > 2 {
		t.Errorf("%d lines took %d writes", lines, got)
	}
	if got := numbers(t, g); len(got) != lines || got[0] != 0 || got[lines-1] != lines-1 {
		t.Errorf("written: %v", got)
	}
	log.Info("afterwards", "n", -1)
	if got := numbers(t, g); len(got) != lines+1 || got[lines] != -1 {
		t.Errorf("after the end, written: %v", got)
	}
}

// A warning is written when the call returns, with what came before it.
func TestWarningIsNotLost(t *testing.T) {
	t.Parallel()
	g := openGate()
	log, finish := New(g, slog.LevelInfo)
	defer finish()
	derived := log.With("n", 1).WithGroup("group")
	for n := range 100 {
		before := len(numbers(t, g))
		log.Info("a line", "n", n)
		derived.Warn("a warning", "n", n)
		if got := numbers(t, g); len(got) != before+2 {
			t.Fatalf("written: %v", got)
		}
	}
}

// A warning does not wait for lines that others log after it, of which there is always one under way.
func TestWarningAmongManyLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, finish := New(slowReader{}, slog.LevelInfo)
		defer finish()
		ctx, stop := context.WithCancel(t.Context())
		var others sync.WaitGroup
		for range 2 {
			others.Go(func() {
				for ctx.Err() == nil {
					log.Info("a line")
					time.Sleep(slowWrite / 3)
				}
			})
		}
		time.Sleep(10 * slowWrite)
		warned := make(chan time.Duration, 1)
		go func() {
			since := time.Now()
			log.Warn("a warning")
			warned <- time.Since(since)
		}()
		select {
		case took := <-warned:
			if took > 2*slowWrite { // the write under way, and that of the warning
				t.Errorf("the warning took %v", took)
			}
		case <-time.After(100 * slowWrite):
			t.Error("the warning waits for as long as others log")
		}
		stop()
		others.Wait()
	})
}

// slowReader is where lines go whose reader takes its time for each write.
type slowReader struct{}

const slowWrite = 10 * time.Millisecond

func (slowReader) Write(p []byte) (int, error) {
	time.Sleep(slowWrite)
	return len(p), nil
}

// Who logs faster than lines can be written waits, and the memory that they take stays bounded.
func TestFullLogWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := shutGate()
		w := newWriter(g)
		line := bytes.Repeat([]byte("x"), 1000)
		line[len(line)-1] = '\n'
		const lines, writers = 1000, 4
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				for range lines {
					w.Write(line)
				}
			})
		}
		synctest.Wait() // all of them wait for the first write
		w.mu.Lock()
		if n := len(w.gathered); n > maxGathered {
			t.Errorf("%d bytes have gathered", n)
		}
		w.mu.Unlock()
		close(g.opened)
		all.Wait()
		w.close()
		total := 0
		for _, p := range g.written() {
			total += len(p)
		}
		if total != lines*writers*len(line) {
			t.Errorf("%d bytes were written", total)
		}
	})
}

// numbers reads the attribute n of every line written.
func numbers(t *testing.T, g *gate) (all []int) {
	t.Helper()
	for text := range strings.Lines(strings.Join(g.written(), "")) {
		var line struct{ N int }
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("line %q: %v", text, err)
		}
		all = append(all, line.N)
	}
	return all
}
