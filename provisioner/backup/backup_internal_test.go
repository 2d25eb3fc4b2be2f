package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/backup/objectstore"
	"mysql-broker/provisioner/memory"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/store"
	"mysql-broker/test/s3"
	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// write writes a backup whose rows the test gives, one statement a chunk.
func (s shelf) write(t *testing.T, instanceID, id string, statements ...string) Manifest {
	w := &writing{vault: s.Vault, attempt: "first", alive: alive,
		manifest: Manifest{InstanceID: instanceID, ID: id, key: make([]byte, keyBytes)}}
	rows := &worker{writing: w}
	for n, text := range statements {
		require.NoError(t, rows.Insert(t.Context(), []byte(text)))
		require.NoError(t, rows.EndChunk(t.Context(), transfer.Chunk{Table: fmt.Sprint("t", n), Sum: "2 1234"}))
	}
	require.NoError(t, errors.Join(rows.Close(t.Context()), w.writeSchema(t.Context(), transfer.Schema{})))
	m, err := w.finish(t.Context())
	require.NoError(t, err)
	return m
}

func alive() error { return nil }

func (s shelf) check(t *testing.T, m Manifest) error {
	return s.Check(t.Context(), m, transfer.Options{Alive: alive, Progress: func(_, _ uint64) {}})
}

// A large statement ends an object, and enough of them end a part.
func TestBackupIsReadAsWritten(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	large := strings.Repeat("x", partBytes)
	s.write(t, "i", "b_1", "INSERT 1", "INSERT\n2;", large, "INSERT 4")
	m, err := s.Manifest(t.Context(), "i", "b_1")
	require.True(t, err == nil && s.check(t, m) == nil, "%v", err)
	assert.True(t, len(m.Parts) == 2 && m.Rows == 8 && m.SQLBytes == int64(len(large)+25) && !m.FinishedAt.IsZero(),
		"%d parts, %d rows, %d bytes, finished at %v", len(m.Parts), m.Rows, m.SQLBytes, m.FinishedAt)
	var got []string
	for _, p := range m.Parts {
		for _, o := range p.Objects {
			assert.NoError(t, s.readStatements(t.Context(), m, o, func(chunk int, text []byte) error {
				got = append(got, p.Chunks[chunk].Table+": "+string(text))
				return nil
			}))
		}
	}
	want := []string{"t0: INSERT 1", "t1: INSERT\n2;", "t2: " + large, "t3: INSERT 4"}
	assert.True(t, slices.Equal(got, want), "read %.100q", got)
}

// A restore reserves memory for objects with long statements.
func TestMemoryForLongStatements(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	m := s.write(t, "i", "b_1", strings.Repeat("x", 5<<20), "INSERT 2")
	var reserved int64
	options := transfer.Options{Reserve: func(_ context.Context, bytes int64) (func(), error) {
		reserved = bytes
		return nil, memory.ErrTooLarge
	}}
	_, err := hold(t.Context(), m.Parts[0], m.Parts[0].Objects[0], options, timesInLoad)
	refusal, ok := errors.AsType[*transfer.RefusedError](err)
	assert.True(t, reserved == 15<<20 && ok && refusal.BySettings &&
		strings.Contains(refusal.Sentence, "Table t0, or table t1 has "+"a row of 5 MiB"), "reserved %d: %v", reserved, err)
}

func TestDamagedBackup(t *testing.T) {
	t.Parallel()
	const manifest = "i/b_1/" + manifestName
	rows := func(m Manifest) string { return "i/b_1/" + m.Parts[0].Objects[0].Name }
	longer := func(raw []byte) []byte { return append(raw, make([]byte, 1<<20)...) }
	for name, damage := range map[string]func(*testing.T, *shelf, Manifest){
		"a bit of the rows": func(t *testing.T, s *shelf, m Manifest) { s.change(t, rows(m), flipBit) },
		"an object that is missing": func(t *testing.T, s *shelf, m Manifest) {
			require.NoError(t, os.Remove(filepath.Join(s.dir, rows(m))))
		},
		"a schema that is missing": func(t *testing.T, s *shelf, m Manifest) {
			require.NoError(t, os.Remove(filepath.Join(s.dir, "i/b_1", m.Schema.Name)))
		},
		"an object that is longer": func(t *testing.T, s *shelf, m Manifest) { s.change(t, "i/b_1/"+m.Schema.Name, longer) },
		"a part of the schema":     func(t *testing.T, s *shelf, m Manifest) { s.change(t, "i/b_1/"+m.Schema.Name, cutOff) },
		"the plan in the manifest": func(t *testing.T, s *shelf, _ Manifest) {
			s.replace(t, manifest, `"plan_id":""`, `"plan_id":"p"`)
		},
		"a manifest that is no JSON": func(t *testing.T, s *shelf, _ Manifest) { s.change(t, manifest, cutOff) },
		"the manifest of another instance": func(t *testing.T, s *shelf, _ Manifest) {
			s.write(t, "other", "b_1", "INSERT 1")
			s.copy(t, "other/b_1/"+manifestName, manifest)
		},
		"another keyset": func(t *testing.T, s *shelf, _ Manifest) { s.use(t, newKeyset(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t)
			damage(t, &s, s.write(t, "i", "b_1", "INSERT 1"))
			m, err := s.Manifest(t.Context(), "i", "b_1")
			if err == nil {
				err = s.check(t, m)
			}
			assert.True(t, isDamaged(err), "the error is %v", err)
			seen := 0
			err = s.Each(t.Context(), func(string, Manifest, error) error { seen++; return nil })
			assert.True(t, err == nil && seen != 0, "it hides the others: %d, %v", seen, err)
		})
	}
}

// An object of one backup cannot take the place of one of another, even with the same key.
func TestObjectsAreBoundToTheirBackup(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	m, other := s.write(t, "i", "b_1", "INSERT 1"), s.write(t, "i", "b_2", "INSERT 2")
	foreign := other.Parts[0].Objects[0]
	m.Parts[0].Objects[0] = foreign
	s.copy(t, "i/b_2/"+foreign.Name, "i/b_1/"+foreign.Name)
	err := s.check(t, m)
	assert.True(t, isDamaged(err), "the error is %v", err)
}

func TestFormatOfALaterRelease(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.write(t, "i", "b_1", "INSERT 1")
	s.replace(t, "i/b_1/"+manifestName, `"format":1`, `"format":2`)
	_, err := s.Manifest(t.Context(), "i", "b_1")
	assert.False(t, err == nil || isDamaged(err) || !strings.Contains(err.Error(), "reads 1"), "the error is %v", err)
}

// The first manifest of a backup counts, and a worker that lost its lease writes none.
func TestTwoWorkersWriteOneBackup(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	first := s.write(t, "i", "b_1", "INSERT 1")
	second := s.write(t, "i", "b_1", "INSERT 1", "INSERT 2")
	assert.Equal(t, first.Rows, second.Rows, "the second worker's backup counts: %d rows", second.Rows)
	lost := errors.New("the lease is lost")
	w := &writing{vault: s.Vault, alive: func() error { return lost },
		manifest: Manifest{InstanceID: "i", ID: "b_2", key: make([]byte, keyBytes)}}
	_, err := w.finish(t.Context())
	assert.ErrorIs(t, err, lost, "a manifest")
	_, err = w.put(t.Context(), "data", nil)
	assert.ErrorIs(t, err, lost, "an object")
	ctx, lose := context.WithCancel(t.Context())
	w.alive, w.vault.Objects = ctx.Err, paused{s.Objects, lose}
	_, err = w.put(ctx, "data", nil)
	assert.ErrorIs(t, err, context.Canceled, "an object, at which the worker was paused")
	names, err := s.names(t.Context(), "i/b_2/")
	assert.True(t, err == nil && len(names) == 0, "%q is there: %v", names, err)
	late := &writing{vault: s.Vault, attempt: "late", alive: alive,
		manifest: Manifest{InstanceID: "i", ID: "b_3", key: make([]byte, keyBytes)}}
	require.NoError(t, late.writeSchema(t.Context(), transfer.Schema{}))
	require.NoError(t, s.clear(t.Context(), "i", "b_3")) // by a worker that has the lease now
	_, err = late.finish(t.Context())
	require.NoError(t, err)
	s.write(t, "i", "b_3", "INSERT 1")
	m, err := s.Manifest(t.Context(), "i", "b_3")
	require.NoError(t, err)
	assert.NoError(t, s.check(t, m), "a manifest that came after its objects were deleted counts")
}

func TestDelete(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	deleted := s.write(t, "i", "b_1", "INSERT 1")
	kept := s.write(t, "i", "b_2", "INSERT 1")
	s.copy(t, "i/b_1/"+manifestName, "i/b_1/.unfinished-1") // as a killed broker leaves it
	for range 2 {
		require.NoError(t, s.Delete(t.Context(), "i", "b_1"))
	}
	assert.NoDirExists(t, filepath.Join(s.dir, "i", "b_1"))
	_, err := s.Manifest(t.Context(), "i", "b_1")
	assert.ErrorIs(t, err, ErrNotFound, "it is there")
	err = s.check(t, deleted)
	assert.True(t, errors.Is(err, ErrNotFound) && !isDamaged(err), "deleted while it is read: %v", err)
	assert.NoError(t, s.Objects.List(t.Context(), "i/b_1/",
		func(name string) error { return errors.New(name + " is left") }))
	assert.NoError(t, s.check(t, kept), "the other one")
}

func TestRewrap(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.write(t, "i", "b_1", "INSERT 1")
	_, err := s.OpenLog(t.Context(), Log{ID: "l_1", InstanceID: "i"})
	require.NoError(t, err)
	s.use(t, promoted(t, s.keyset))
	for _, want := range []int{2, 0} {
		n, err := s.Rewrap(t.Context())
		assert.True(t, n == want && err == nil, "rewrapped %d, %v; want %d", n, err, want)
	}
	text, err := store.DropOldKeys(s.keyset)
	require.NoError(t, err)
	s.use(t, text)
	m, err := s.Manifest(t.Context(), "i", "b_1")
	if err == nil {
		err = s.check(t, m)
	}
	_, errLog := s.Log(t.Context(), "i", "l_1")
	assert.True(t, err == nil && errLog == nil, "without the old key: %v, %v", err, errLog)
	listed := &listed{Store: s.Objects}
	s.Objects = listed
	_, err = s.Rewrap(t.Context())
	assert.True(t, err == nil && listed.times == 1, "listed %d times: %v", listed.times, err)
	s.Objects = unlisted{s.Objects}
	_, err = s.Rewrap(t.Context())
	require.Error(t, err)
	assert.Equal(t, 1, strings.Count(err.Error(), "no list"), err)
}

// What a paused or killed broker has left is no backup, and is named.
func TestUnfinished(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.write(t, "i", "b_1", "INSERT 1")
	s.copy(t, "i/b_1/"+manifestName, "i/b_2/"+manifestName)
	s.copy(t, "i/b_1/"+manifestName, "i/b_2/.unfinished-1")
	s.copy(t, "i/b_1/"+manifestName, "i/b_3/data-late")
	s.copy(t, "i/b_1/"+manifestName, "i/b_4/.unfinished-1")
	s.copy(t, "i/b_1/"+manifestName, "i/l_1/log.1/4")
	s.copy(t, "i/b_1/"+manifestName, "of/others/data")
	openLog(t, s)
	var seen []string
	require.NoError(t, s.Each(t.Context(), func(name string, m Manifest, err error) error {
		seen = append(seen, fmt.Sprint(name, " ", m.ID, " ", errors.Is(err, ErrUnfinished)))
		return nil
	}))
	assert.Equal(t, []string{"i/b_1/manifest.json b_1 false", "i/b_3/ b_3 true", "i/b_4/ b_4 true"}, seen)
}

// Nothing is left of what is deleted while its key is encrypted again, whatever either has done before the other goes on.
func TestRewrapBesideDelete(t *testing.T) {
	t.Parallel()
	old := newShelf(t)
	text := promoted(t, old.keyset)
	for what, test := range map[string]struct {
		write  func()
		remove func(Vault, context.Context, string, string) error
	}{
		"a backup": {func() { old.write(t, "i", "b_1", "INSERT 1") }, Vault.Delete},
		"a log": {func() {
			l, err := old.OpenLog(t.Context(), Log{ID: "b_1", InstanceID: "i"})
			require.NoError(t, err)
			require.NoError(t, old.RecordEnd(t.Context(), l, LogEnd{Until: noon}))
		}, Vault.DeleteLog},
	} {
		for rewrapped, began := 0, true; began; rewrapped++ {
			for deleted, paused := 0, true; paused; deleted++ {
				began, paused = false, false
				test.write()
				resume, arrived, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
				deleting := Vault{&called{Store: old.Objects, nth: deleted, fn: func() {
					paused = true
					close(arrived)
					<-resume
				}}, old.Keys}
				rewrapping := old
				rewrapping.use(t, text)
				rewrapping.Objects = &called{Store: old.Objects, nth: rewrapped, fn: func() {
					began = true
					go func() {
						done <- test.remove(deleting, t.Context(), "i", "b_1")
						if !paused {
							close(arrived)
						}
					}()
					<-arrived
				}}
				_, err := rewrapping.Rewrap(t.Context())
				require.NoError(t, err)
				close(resume)
				if !began {
					require.NoError(t, test.remove(old.Vault, t.Context(), "i", "b_1"))
					break
				}
				require.NoError(t, <-done)
				names, err := old.names(t.Context(), "")
				require.NoError(t, err)
				require.Empty(t, names, "%s, deleted after %d calls of Rewrap, which went on after %d of the deletion", what,
					rewrapped, deleted)
			}
		}
	}
}

// What a Rewrap that was killed has written of a backup that was deleted meanwhile, the next one deletes.
func TestRewrapKilledBesideDelete(t *testing.T) {
	t.Parallel()
	old := newShelf(t)
	bucket, err := objectstore.OpenS3(objectstore.S3Config{Endpoint: s3.Start(t).Address, Insecure: true, Bucket: s3.Bucket,
		AccessKey: s3.AccessKey, SecretKey: s3.SecretKey})
	require.NoError(t, err)
	old.Objects = bucket
	rewrapping := old
	rewrapping.use(t, promoted(t, old.keyset))
	for calls, began := 0, true; began; calls++ {
		began = false
		old.write(t, "i", "b_1", "INSERT 1")
		ctx, kill := context.WithCancel(t.Context())
		rewrapping.Objects = &called{nth: calls + 1, fn: kill, Store: &called{nth: calls, Store: bucket, fn: func() {
			began = true
			require.NoError(t, old.Delete(t.Context(), "i", "b_1"))
		}}}
		_, err := rewrapping.Rewrap(ctx)
		require.Equal(t, ctx.Err() != nil, err != nil, "after %d calls: %v", calls, err)
		kill()
		rewrapping.Objects = bucket
		_, err = rewrapping.Rewrap(t.Context())
		require.NoError(t, err)
		names, err := old.names(t.Context(), "")
		require.NoError(t, err)
		require.True(t, !began || len(names) == 0, "deleted after %d calls: %q", calls, names)
	}
}

// called is an object store that calls fn before the nth call of it.
type called struct {
	objectstore.Store
	nth int
	fn  func()
}

func (c *called) next() {
	if c.nth--; c.nth == -1 {
		c.fn()
	}
}

func (c *called) Put(ctx context.Context, name string, data []byte) error {
	c.next()
	return c.Store.Put(ctx, name, data)
}

func (c *called) Get(ctx context.Context, name string, max int64) ([]byte, error) {
	c.next()
	return c.Store.Get(ctx, name, max)
}

func (c *called) List(ctx context.Context, prefix string, fn func(string) error) error {
	c.next()
	return c.Store.List(ctx, prefix, fn)
}

func (c *called) Delete(ctx context.Context, name string) error {
	c.next()
	return c.Store.Delete(ctx, name)
}

// listed is an object store that counts how often it is listed.
type listed struct {
	objectstore.Store
	times int
}

func (l *listed) List(ctx context.Context, prefix string, fn func(string) error) error {
	l.times++
	return l.Store.List(ctx, prefix, fn)
}

// unlisted is an object store that cannot be listed.
type unlisted struct{ objectstore.Store }

func (unlisted) List(context.Context, string, func(string) error) error { return errors.New("no list") }

// paused is an object store that writes an object, and then calls then.
type paused struct {
	objectstore.Store
	then func()
}

func (p paused) Put(ctx context.Context, name string, data []byte) error {
	defer p.then()
	return p.Store.Put(ctx, name, data)
}

func TestFolder(t *testing.T) {
	t.Parallel()
	for id, plain := range map[string]bool{"5e8fb0f4-2b0b-4d30-8a5c-4b9b0b0f7a01": true, "A_1": true, "": false, "..": false,
		"a/b": false, "_hidden": false, "ä": false, strings.Repeat("i", 100): true, strings.Repeat("i", 101): false} {
		got := folder(id, "b")
		assert.True(t, (got == id+"/b/") == plain && strings.Count(got, "/") == 2 && len(got) <= 110, "%q is in %q", id, got)
	}
	assert.NotEqual(t, folder("a/c", "b"), folder("a/b", "b"), "two instances share a folder")
}

func TestMalformedStatements(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	for _, text := range []string{"INSERT 1;\n", "-- chunk 0, -3 bytes\n", "-- chunk 0, 100 bytes\nINSERT;\n", "-- chunk 0"} {
		m := Manifest{InstanceID: "i", ID: "b", key: make([]byte, keyBytes)}
		seal, err := newSealer(m.key)
		require.NoError(t, err)
		require.NoError(t, seal.begin(place("i", "b", "data")))
		_, err = seal.Write([]byte(text))
		require.NoError(t, err)
		data, err := seal.end()
		require.NoError(t, errors.Join(err, s.Objects.Put(t.Context(), "i/b/data", data)))
		err = s.readStatements(t.Context(), m, describe("data", data), func(int, []byte) error { return nil })
		assert.True(t, isDamaged(err), "%q: %v", text, err)
	}
}

// shelf is a vault in a directory.
type shelf struct {
	Vault
	dir    string
	keyset string
}

func newShelf(t *testing.T) shelf {
	s := shelf{dir: t.TempDir()}
	s.Objects = objectstore.OpenDirectory(s.dir)
	s.use(t, newKeyset(t))
	return s
}

func newKeyset(t *testing.T) string {
	keyset, err := store.NewKeyset()
	require.NoError(t, err)
	return keyset
}

// promoted is a keyset whose new key encrypts, and whose old one is still there.
func promoted(t *testing.T, keyset string) string {
	added, err := store.AddKey(keyset)
	require.NoError(t, err)
	text, err := store.PromoteKey(added)
	require.NoError(t, err)
	return text
}

// use makes it the shelf of a broker with that keyset.
func (s *shelf) use(t *testing.T, keyset string) {
	keys, err := store.ParseKeyset(keyset)
	require.NoError(t, err)
	s.Keys, s.keyset = keys, keyset
}

// replace changes a text in an object.
func (s shelf) replace(t *testing.T, name, text, by string) {
	s.change(t, name, func(raw []byte) []byte { return bytes.Replace(raw, []byte(text), []byte(by), 1) })
}

// change rewrites an object.
func (s shelf) change(t *testing.T, name string, change func([]byte) []byte) {
	path := filepath.Join(s.dir, name)
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, change(raw), 0o600))
}

// copy copies an object to another name.
func (s shelf) copy(t *testing.T, from, to string) {
	raw, err := os.ReadFile(filepath.Join(s.dir, from))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(s.dir, to)), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, to), raw, 0o600))
}

func flipBit(raw []byte) []byte {
	raw[len(raw)/2] ^= 1
	return raw
}

func cutOff(raw []byte) []byte { return raw[:len(raw)-1] }

func isDamaged(err error) bool { return errors.As(err, new(*DamagedError)) }
