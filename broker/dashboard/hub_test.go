package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mysql-broker/store"
)

// However many look, there is one question at each interval, and none once nobody looks any more.
func TestViewersShareQuestions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked, most atomic.Int64
		h := newHub(func(_ context.Context, ids []string) ([]store.Activity, error) {
			asked.Add(1)
			most.Store(max(most.Load(), int64(len(ids))))
			var all []store.Activity
			for _, id := range ids {
				all = append(all, store.Activity{InstanceID: id, State: store.Ready})
			}
			return all, nil
		}, slog.New(slog.DiscardHandler))
		defer h.close()
		time.Sleep(time.Minute)
		if asked.Load() != 0 {
			t.Error("asked without viewers")
		}
		var leaves []func()
		for n := range 100 {
			v, leave, err := h.watch([]string{"a", "b"}[n%2])
			if err != nil {
				t.Fatal(err)
			}
			<-v.latest
			leaves = append(leaves, leave)
		}
		time.Sleep(watchEach) // the last of them may have been answered by a tick, and be asked for once more
		synctest.Wait()
		before := asked.Load()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := asked.Load() - before; n != 10 || most.Load() != 2 {
			t.Errorf("asked %d times in 10 s, about %d instances at most", n, most.Load())
		}
		for _, leave := range leaves {
			leave()
		}
		time.Sleep(2 * watchEach)
		before = asked.Load()
		time.Sleep(time.Minute)
		if n := asked.Load() - before; n != 0 {
			t.Errorf("asked %d times although nobody looks", n)
		}
		v, leave, err := h.watch("a")
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
		<-v.latest // it begins anew
	})
}

// A viewer hears of changes alone, of the newest if it was slow, and again after the store was away.
func TestViewersHearOfChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now atomic.Pointer[store.Activity] // nil while the store is away
		set := func(description string) {
			now.Store(&store.Activity{InstanceID: "a", State: store.Creating, Latest: store.TaskSummary{ID: 1,
				State: store.InProgress, Description: description}})
		}
		h := newHub(func(context.Context, []string) ([]store.Activity, error) {
			if a := now.Load(); a != nil {
				return []store.Activity{*a}, nil
			}
			return nil, errors.New("away")
		}, slog.New(slog.DiscardHandler))
		defer h.close()
		expect := func(v *viewer, want string) {
			t.Helper()
			time.Sleep(3 * watchEach)
			synctest.Wait()
			got := ""
			select {
			case a := <-v.latest:
				got = a.Latest.Description
			default:
			}
			if got != want {
				t.Errorf("heard %q, wanted %q", got, want)
			}
		}
		set("one")
		v, leave, err := h.watch("a")
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
		expect(v, "one")
		expect(v, "")
		set("two")
		time.Sleep(3 * watchEach)
		set("three")
		expect(v, "three")
		now.Store(nil)
		expect(v, "")
		set("four")
		expect(v, "four")
	})
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	h := newHub(func(context.Context, []string) ([]store.Activity, error) { return nil, nil }, slog.New(slog.DiscardHandler))
	defer h.close()
	var last func()
	for range maxStreams {
		_, leave, err := h.watch("a")
		if err != nil {
			t.Fatal(err)
		}
		last = leave
	}
	if _, _, err := h.watch("a"); !errors.Is(err, errTooManyStreams) {
		t.Errorf("one more: %v", err)
	}
	last()
	if _, _, err := h.watch("a"); err != nil {
		t.Errorf("in place of one that left: %v", err)
	}
}
