package backup

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/binlog"
	"mysql-broker/provisioner/memory"
)

func pos(file string, offset int64) binlog.Position {
	return binlog.Position{File: file, Offset: offset}
}

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// openLog is a log of the instance i, which begins in the second file.
func openLog(t *testing.T, s shelf) Log {
	l, err := s.OpenLog(t.Context(), Log{ID: "l_1", InstanceID: "i", Server: "d_1", Begin: pos("log.2", 4), BeganAt: noon})
	require.NoError(t, err)
	return l
}

// newLog is such a log on a shelf of its own, and a writer at its beginning.
func newLog(t *testing.T) (s shelf, l Log, w *LogWriter, ends *[]binlog.Position) {
	s, ends = newShelf(t), &[]binlog.Position{}
	l = openLog(t, s)
	return s, l, writer(t, s, l, l.Begin, ends), ends
}

// formatOf is the event that begins a file at a second.
func formatOf(second uint32) []byte {
	event := make([]byte, 19)
	binary.LittleEndian.PutUint32(event, second)
	return event
}

// writer begins where the log ends. It appends the end of each segment to ends.
func writer(t *testing.T, s shelf, l Log, at binlog.Position, ends *[]binlog.Position) *LogWriter {
	w, err := NewLogWriter(s.Vault, l, at, noon, pos("log.3", 9), noon.Add(time.Minute),
		func(_ context.Context, end binlog.Position, bytes int64) error {
			assert.True(t, bytes > 0, "a segment of %d bytes", bytes)
			*ends = append(*ends, end)
			return nil
		})
	require.NoError(t, err)
	return w
}

// file has the writer take a file with one event.
func file(t *testing.T, w *LogWriter, at binlog.Position, began uint32, event string) error {
	if err := w.Begin(t.Context(), at); err != nil {
		return err
	}
	err := w.Format(formatOf(began))
	if err == nil {
		_, err = io.WriteString(w, event)
	}
	return errors.Join(err, w.End(t.Context(), pos(at.File, at.Offset+int64(len(event)))))
}

func TestLogIsReadAsWritten(t *testing.T) {
	t.Parallel()
	s, l, w, ends := newLog(t)
	assert.Equal(t, l, openLog(t, s), "opened again")
	require.NoError(t, errors.Join(file(t, w, l.Begin, 7, "first"), file(t, w, pos("log.3", 4), 8, "other"),
		w.Flush(t.Context()), w.Flush(t.Context())))
	want := []binlog.Position{pos("log.2", 9), pos("log.3", 9)}
	assert.Equal(t, want, *ends, "the segments end")
	all, err := s.Segments(t.Context(), l)
	want = []binlog.Position{l.Begin, pos("log.3", 4)}
	require.NoError(t, err)
	require.Equal(t, want, all)
	for n, text := range []string{"first", "other"} {
		end, head, err := s.ReadSegment(t.Context(), l, all[n], func(_ SegmentHead, in io.Reader) error {
			all, err := io.ReadAll(in)
			assert.Equal(t, text, string(all))
			return err
		})
		previous := []binlog.Position{l.Begin, (*ends)[0]}[n]
		assert.True(t, err == nil && end == (*ends)[n] && head.Previous == previous &&
			head.Until.Equal(noon.Add(time.Minute)) && binlog.Began(head.Format) == int64(7+n),
			"it ends at %v with %+v, %v", end, head, err)
	}
	_, _, err = s.ReadSegment(t.Context(), l, pos("log.2", 5), nil)
	assert.True(t, err == ErrNoSegment, "a segment that is not there: %v", err)
}

// A large event waits for memory, which it gives back, and has a segment of its own.
func TestMemoryForLargeEvents(t *testing.T) {
	t.Parallel()
	s, l, w, ends := newLog(t)
	var held, most int64
	w.Reserve = func(_ context.Context, bytes int64) (func(), error) {
		held += bytes
		most = max(most, held)
		return func() { held -= bytes }, nil
	}
	large := rand.Text() + strings.Repeat("x", 9<<20)
	at := l.Begin
	require.NoError(t, errors.Join(w.Begin(t.Context(), at), w.Format(formatOf(7))))
	for _, event := range []string{"small", large, "small"} {
		at.Offset += int64(len(event))
		require.NoError(t, w.Next(t.Context(), int64(len(event))))
		_, err := io.WriteString(w, event)
		require.NoError(t, errors.Join(err, w.End(t.Context(), at)))
	}
	require.NoError(t, w.Flush(t.Context()))
	assert.True(t, held == 0 && most > 9<<20 && len(*ends) == 3, "held %d, at most %d; segments: %v", held, most, *ends)
	_, _, err := s.ReadSegment(t.Context(), l, (*ends)[0], func(_ SegmentHead, in io.Reader) error {
		all, err := io.ReadAll(in)
		assert.True(t, string(all) == large, "the large event is another one")
		return err
	})
	require.NoError(t, err)
	w.Reserve = func(context.Context, int64) (func(), error) { return nil, memory.ErrTooLarge }
	assert.ErrorIs(t, w.Next(t.Context(), int64(len(large))), memory.ErrTooLarge)
}

// Whoever comes second finds the segment of the first.
func TestTwoArchivers(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	l := openLog(t, s)
	var ends []binlog.Position
	for n, want := range []error{nil, ErrArchived} {
		w := writer(t, s, l, l.Begin, &ends)
		err := file(t, w, l.Begin, 7, "event")
		if err == nil {
			err = w.Flush(t.Context())
		}
		assert.True(t, errors.Is(err, want) && len(ends) == 1, "archiver %d: %v, and %d segments", n, err, len(ends))
	}
}

func TestLogGoesOn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		at      binlog.Position
		began   uint32
		refused bool
	}{
		"the next file":               {pos("log.3", 4), 8, false},
		"the same file":               {pos("log.2", 9), 7, false},
		"a file is missing":           {pos("log.4", 4), 9, true},
		"the middle of the next":      {pos("log.3", 5), 8, true},
		"a gap in the same":           {pos("log.2", 10), 7, true},
		"the same once more":          {pos("log.2", 4), 7, true},
		"another file with that name": {pos("log.2", 9), 70, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, l, w, _ := newLog(t)
			require.NoError(t, file(t, w, l.Begin, 7, "event"))
			err := file(t, w, test.at, test.began, "more")
			assert.Equal(t, test.refused, err != nil, "the error is %v", err)
		})
	}
}

func TestNotedEnd(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	l := openLog(t, s)
	end, err := s.RecordedEnd(t.Context(), l)
	assert.True(t, err == nil && end.Until.IsZero(), "before the first note: %+v, %v", end, err)
	const object = "i/l_1/" + endName
	for n, test := range []struct {
		note, want int // minutes
		damage     func([]byte) []byte
	}{{1, 1, nil}, {3, 3, nil}, {2, 3, nil}, {1, 1, flipBit}} {
		if test.damage != nil {
			s.change(t, object, test.damage)
			_, err := s.RecordedEnd(t.Context(), l)
			assert.True(t, isDamaged(err), "a damaged note: %v", err)
		}
		note := LogEnd{At: l.Begin, Until: noon.Add(time.Duration(test.note) * time.Minute)}
		require.NoError(t, s.RecordEnd(t.Context(), l, note))
		end, err := s.RecordedEnd(t.Context(), l)
		assert.True(t, err == nil && end.Until.Equal(noon.Add(time.Duration(test.want)*time.Minute)),
			"note %d: %+v, %v", n, end, err)
	}
}

func TestDamagedLog(t *testing.T) {
	t.Parallel()
	s, l, w, _ := newLog(t)
	require.NoError(t, errors.Join(file(t, w, l.Begin, 7, "event"), w.Flush(t.Context())))
	prefix := folder("i", "l_1")
	s.copy(t, prefix+segmentName(l.Begin), prefix+segmentName(pos("log.2", 9)))
	_, _, err := s.ReadSegment(t.Context(), l, pos("log.2", 9), nil)
	assert.True(t, isDamaged(err), "a segment in another's place: %v", err)
	s.change(t, prefix+segmentName(l.Begin), flipBit)
	_, _, err = s.ReadSegment(t.Context(), l, l.Begin, func(_ SegmentHead, in io.Reader) error {
		_, err := io.Copy(io.Discard, in)
		return err
	})
	assert.True(t, isDamaged(err), "a changed segment: %v", err)
	s.copy(t, prefix+logName, "other/l_1/"+logName)
	_, err = s.Log(t.Context(), "other", "l_1")
	assert.True(t, isDamaged(err), "a log in another's place: %v", err)
}

// The segment in which a backup was taken stays, and so do all later ones.
func TestDeleteSegmentsBefore(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		at   binlog.Position
		left int
	}{{pos("log.2", 4), 3}, {pos("log.2", 8), 3}, {pos("log.3", 4), 2}, {pos("log.3", 5), 2}, {pos("log.10", 4), 1},
		{pos("log.11", 4), 1}} {
		s := newShelf(t)
		l := openLog(t, s)
		for _, at := range []binlog.Position{pos("log.10", 4), pos("log.2", 4), pos("log.3", 4)} {
			require.NoError(t, s.Objects.Put(t.Context(), folder("i", "l_1")+segmentName(at), nil))
		}
		require.NoError(t, s.DeleteSegmentsBefore(t.Context(), l, test.at))
		all, err := s.Segments(t.Context(), l)
		assert.True(t, err == nil && len(all) == test.left, "before %v, %v are left, %v", test.at, all, err)
	}
}
