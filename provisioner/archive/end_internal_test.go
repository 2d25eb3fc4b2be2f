package archive

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/backup/objectstore"
	"mysql-broker/provisioner/binlog"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

func pos(file string, offset int64) binlog.Position {
	return binlog.Position{File: file, Offset: offset}
}

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func minute(n float64) time.Time { return noon.Add(time.Duration(n * float64(time.Minute))) }

// openLog is a log of the instance i that begins at noon, and where its objects are.
func openLog(t *testing.T) (v backup.Vault, l backup.Log, dir string) {
	dir = t.TempDir()
	objects := objectstore.OpenDirectory(dir)
	keyset, err := store.NewKeyset()
	require.NoError(t, err)
	keys, err := store.ParseKeyset(keyset)
	require.NoError(t, err)
	v = backup.Vault{Objects: objects, Keys: keys}
	l, err = v.OpenLog(t.Context(), backup.Log{ID: "l_1", InstanceID: "i", Begin: pos("log.1", 4), BeganAt: noon})
	require.NoError(t, err)
	return v, l, dir
}

// segment writes one that holds what the server wrote between two minutes, up to a position. Its logs ended at target.
func segment(t *testing.T, v backup.Vault, l backup.Log, from, to, target binlog.Position, after, until float64) {
	w, err := backup.NewLogWriter(v, l, from, minute(after), target, minute(until),
		func(context.Context, binlog.Position, int64) error { return nil })
	require.NoError(t, err)
	require.NoError(t, w.Begin(t.Context(), from))
	_, err = w.Write(make([]byte, to.Offset-from.Offset))
	require.NoError(t, err)
	require.NoError(t, w.End(t.Context(), to))
	require.NoError(t, w.Flush(t.Context()))
}

func TestEnd(t *testing.T) {
	t.Parallel()
	five, nine := pos("log.1", 5), pos("log.1", 9)
	for name, test := range map[string]struct {
		segments []binlog.Position // where the server's logs ended, one for each segment
		end      *backup.LogEnd
		at       binlog.Position
		until    float64
	}{
		"nothing archived":                  {nil, nil, pos("log.1", 4), 0},
		"all that the server had":           {[]binlog.Position{five}, nil, five, 1},
		"a part of what the server had":     {[]binlog.Position{nine}, nil, five, 0},
		"two segments":                      {[]binlog.Position{five, pos("log.1", 6)}, nil, pos("log.1", 6), 2},
		"an idle server":                    {[]binlog.Position{five}, &backup.LogEnd{At: five, Until: minute(7)}, five, 7},
		"an end from before the segment":    {[]binlog.Position{five}, &backup.LogEnd{At: pos("log.1", 4), Until: minute(0.5)}, five, 1},
		"a segment behind the last is gone": {[]binlog.Position{five}, &backup.LogEnd{At: nine, Until: minute(7)}, five, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, l, _ := openLog(t)
			for n, target := range test.segments {
				from := pos("log.1", int64(4+n))
				segment(t, v, l, from, pos("log.1", from.Offset+1), target, float64(n), float64(n+1))
			}
			if test.end != nil {
				require.NoError(t, v.RecordEnd(t.Context(), l, *test.end))
			}
			end, err := End(t.Context(), v, l)
			assert.True(t, err == nil && end.At == test.at && end.Until.Equal(minute(test.until)),
				"it goes to %+v, %v; want %v of minute %v", end, err, test.at, test.until)
		})
	}
}

func TestEndWithADamagedNote(t *testing.T) {
	t.Parallel()
	v, l, dir := openLog(t)
	segment(t, v, l, pos("log.1", 4), pos("log.1", 5), pos("log.1", 5), 0, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "i/l_1/end.zst.enc"), []byte("damaged"), 0o600))
	end, err := End(t.Context(), v, l)
	assert.True(t, err == nil && end.Until.Equal(minute(1)), "it goes to %+v, %v", end, err)
}

// The object store learns about once a minute until when a server has written nothing.
func TestNotes(t *testing.T) {
	t.Parallel()
	v, l, _ := openLog(t)
	a := &Archiver{Config: Config{Vault: &v}}
	for _, step := range []struct {
		grown    bool
		at       float64
		recorded float64 // as the object store has it afterwards
	}{{true, 1, -1}, {false, 1.5, -1}, {false, 1.95, 1.95}, {false, 2, 1.95}, {true, 3, 1.95}, {false, 3.9, 1.95}, {false, 4, 4}} {
		require.NoError(t, a.recordEnd(t.Context(), l, backup.LogEnd{At: l.Begin, Until: minute(step.at)}, step.grown))
		end, err := v.RecordedEnd(t.Context(), l)
		assert.True(t, err == nil && end.Until.IsZero() == (step.recorded < 0) &&
			(step.recorded <= 0 || end.Until.Equal(minute(step.recorded))), "minute %v: recorded is %v, %v", step.at, end.Until, err)
	}
}

// What is not recorded yet is recorded when the server is silent for a round, when its archive ends, or when the broker stops.
func TestOtherNotes(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(context.Context, *Archiver) error{
		"a round without it": func(ctx context.Context, a *Archiver) error {
			assert.NoError(t, a.recordOthers(ctx))
			assert.Len(t, a.ends.all, 1, "in the round that archives it")
			return a.recordOthers(ctx)
		},
		"the broker stops": func(_ context.Context, a *Archiver) error { return a.recordLast() },
	} {
		v, l, _ := openLog(t)
		a := &Archiver{Config: Config{Vault: &v}}
		for _, at := range []float64{1, 1.5} {
			require.NoError(t, a.recordEnd(t.Context(), l, backup.LogEnd{At: l.Begin, Until: minute(at)}, at == 1))
		}
		assert.NoError(t, end(t.Context(), a), name)
		recorded, err := v.RecordedEnd(t.Context(), l)
		assert.True(t, err == nil && recorded.Until.Equal(minute(1.5)), "%s: recorded is %v, %v", name, recorded.Until, err)
		assert.Empty(t, a.ends.all, name)
	}
}

// PostgreSQL may be behind what this broker has archived, and an archive may have been deleted.
func TestNotesOfEndedArchives(t *testing.T) {
	t.Parallel()
	v, l, _ := openLog(t)
	a := &Archiver{Config: Config{Vault: &v}}
	for _, at := range []float64{2, 1} {
		a.ends.add(store.BinaryLog{ID: l.ID, InstanceID: "i", File: "log.1", Position: 4, Until: minute(at)})
	}
	a.ends.add(store.BinaryLog{ID: "l_deleted", InstanceID: "i", Until: minute(1)})
	assert.NoError(t, a.recordOthers(t.Context()))
	recorded, err := v.RecordedEnd(t.Context(), l)
	assert.True(t, err == nil && recorded.Until.Equal(minute(2)) && recorded.At == l.Begin, "recorded is %+v, %v", recorded, err)
}

func TestPlans(t *testing.T) {
	t.Parallel()
	got := Plans(plan.Set{{ID: "a", ArchiveLogs: true}, {ID: "b"}})
	assert.True(t, len(got) == 1 && got[0] == "a", "archived are %q", got)
	if got := Plans(plan.Set{}); got == nil { // NULL in PostgreSQL
		t.Error("no plans are nil")
	}
}
