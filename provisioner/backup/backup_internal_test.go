package backup

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"mysql-broker/provisioner/memory"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/store"
)

// write writes a backup whose rows the test gives, one statement a chunk.
func (s shelf) write(t *testing.T, instanceID, id string, statements ...string) Manifest {
	t.Helper()
	w := &writing{vault: s.Vault, attempt: "first",
		manifest: Manifest{InstanceID: instanceID, ID: id, key: make([]byte, keyBytes)}}
	rows := &worker{writing: w}
	for n, text := range statements {
		err := rows.Insert(t.Context(), []byte(text))
		if err == nil {
			err = rows.EndChunk(t.Context(), transfer.Chunk{Table: fmt.Sprint("t", n), Sum: "2 1234"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(rows.Close(t.Context()), w.writeSchema(t.Context(), transfer.Schema{})); err != nil {
		t.Fatal(err)
	}
	m, err := w.finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (s shelf) check(t *testing.T, m Manifest) error {
	t.Helper()
	return s.Check(t.Context(), m, transfer.Options{Alive: func() error { return nil }, Progress: func(_, _ uint64) {}})
}

// A large statement ends an object, and enough of them end a part.
func TestBackupIsReadAsWritten(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	large := strings.Repeat("x", partBytes)
	s.write(t, "i", "b_1", "INSERT 1", "INSERT\n2;", large, "INSERT 4")
	m, err := s.Manifest(t.Context(), "i", "b_1")
	if err != nil || s.check(t, m) != nil {
		t.Fatal(err)
	}
	if len(m.Parts) != 2 || m.Rows != 8 || m.SQLBytes != int64(len(large)+25) || m.FinishedAt.IsZero() {
		t.Errorf("%d parts, %d rows, %d bytes, finished at %v", len(m.Parts), m.Rows, m.SQLBytes, m.FinishedAt)
	}
	var got []string
	for _, p := range m.Parts {
		for _, o := range p.Objects {
			if err := s.readStatements(t.Context(), m, o, func(chunk int, text []byte) error {
				got = append(got, p.Chunks[chunk].Table+": "+string(text))
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
	}
	if want := []string{"t0: INSERT 1", "t1: INSERT\n2;", "t2: " + large, "t3: INSERT 4"}; !reflect.DeepEqual(got, want) {
		t.Errorf("read %.100q", got)
	}
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
	if reserved != 15<<20 || !ok || !refusal.BySettings || !strings.Contains(refusal.Sentence, "Table t0, or table t1 has "+
		"a row of 5 MiB") {
		t.Errorf("reserved %d: %v", reserved, err)
	}
}

func TestDamagedBackup(t *testing.T) {
	t.Parallel()
	const manifest = "i/b_1/" + manifestName
	for name, damage := range map[string]func(*testing.T, shelf, Manifest) shelf{
		"a bit of the rows": func(t *testing.T, s shelf, m Manifest) shelf {
			s.change(t, "i/b_1/"+m.Parts[0].Objects[0].Name, flipBit)
			return s
		},
		"a part of the schema": func(t *testing.T, s shelf, m Manifest) shelf {
			s.change(t, "i/b_1/"+m.Schema.Name, cutOff)
			return s
		},
		"the space in the manifest": func(t *testing.T, s shelf, _ Manifest) shelf {
			s.change(t, manifest, func(raw []byte) []byte {
				return []byte(strings.Replace(string(raw), `"plan_id":""`, `"plan_id":"mine"`, 1))
			})
			return s
		},
		"a manifest that is no JSON": func(t *testing.T, s shelf, _ Manifest) shelf {
			s.change(t, manifest, cutOff)
			return s
		},
		"the manifest of another instance": func(t *testing.T, s shelf, _ Manifest) shelf {
			s.write(t, "other", "b_1", "INSERT 1")
			s.copy(t, "other/b_1/"+manifestName, manifest)
			return s
		},
		"another keyset": func(t *testing.T, s shelf, _ Manifest) shelf {
			foreign, err := store.NewKeyset()
			if err != nil {
				t.Fatal(err)
			}
			return s.with(t, foreign)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t)
			s = damage(t, s, s.write(t, "i", "b_1", "INSERT 1"))
			m, err := s.Manifest(t.Context(), "i", "b_1")
			if err == nil {
				err = s.check(t, m)
			}
			if !isDamaged(err) {
				t.Errorf("the error is %v", err)
			}
			seen := 0
			if err := s.Each(t.Context(), func(string, Manifest, error) error { seen++; return nil }); err != nil || seen == 0 {
				t.Errorf("it hides the others: %d, %v", seen, err)
			}
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
	if err := s.check(t, m); !isDamaged(err) {
		t.Errorf("the error is %v", err)
	}
}

func TestFormatOfALaterRelease(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.write(t, "i", "b_1", "INSERT 1")
	s.change(t, "i/b_1/"+manifestName, func(raw []byte) []byte {
		return []byte(strings.Replace(string(raw), `"format":1`, `"format":2`, 1))
	})
	if _, err := s.Manifest(t.Context(), "i", "b_1"); err == nil || isDamaged(err) || !strings.Contains(err.Error(), "reads 1") {
		t.Errorf("the error is %v", err)
	}
}

// The first manifest of a backup counts, and a worker that lost its lease writes none.
func TestTwoWorkersWriteOneBackup(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	first := s.write(t, "i", "b_1", "INSERT 1")
	if second := s.write(t, "i", "b_1", "INSERT 1", "INSERT 2"); second.Rows != first.Rows {
		t.Errorf("the second worker's backup counts: %d rows", second.Rows)
	}
	lost := errors.New("the lease is lost")
	w := &writing{vault: s.Vault, alive: func() error { return lost },
		manifest: Manifest{InstanceID: "i", ID: "b_2", key: make([]byte, keyBytes)}}
	if _, err := w.finish(t.Context()); !errors.Is(err, lost) {
		t.Errorf("a manifest: %v", err)
	}
	if _, err := w.put(t.Context(), "data", nil); !errors.Is(err, lost) {
		t.Errorf("an object: %v", err)
	}
	if _, err := s.Manifest(t.Context(), "i", "b_2"); !errors.Is(err, ErrNotFound) {
		t.Errorf("the backup is there: %v", err)
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.write(t, "i", "b_1", "INSERT 1")
	kept := s.write(t, "i", "b_2", "INSERT 1")
	for range 2 {
		if err := s.Delete(t.Context(), "i", "b_1"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Manifest(t.Context(), "i", "b_1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("it is there: %v", err)
	}
	if err := s.Objects.List(t.Context(), "i/b_1/", func(name string) error { return errors.New(name + " is left") }); err != nil {
		t.Error(err)
	}
	if err := s.check(t, kept); err != nil {
		t.Errorf("the other one: %v", err)
	}
}

func TestRewrap(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.write(t, "i", "b_1", "INSERT 1")
	if _, err := s.OpenLog(t.Context(), Log{ID: "l_1", InstanceID: "i"}); err != nil {
		t.Fatal(err)
	}
	text := s.keyset
	for _, step := range []func(string) (string, error){store.AddKey, store.PromoteKey} {
		var err error
		if text, err = step(text); err != nil {
			t.Fatal(err)
		}
	}
	s = s.with(t, text)
	for _, want := range []int{2, 0} {
		if n, err := s.Rewrap(t.Context()); n != want || err != nil {
			t.Errorf("rewrapped %d, %v; want %d", n, err, want)
		}
	}
	text, err := store.DropOldKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	s = s.with(t, text)
	m, err := s.Manifest(t.Context(), "i", "b_1")
	if err == nil {
		err = s.check(t, m)
	}
	if _, errLog := s.Log(t.Context(), "i", "l_1"); err != nil || errLog != nil {
		t.Errorf("without the old key: %v, %v", err, errLog)
	}
}

func TestFolder(t *testing.T) {
	t.Parallel()
	for id, plain := range map[string]bool{"5e8fb0f4-2b0b-4d30-8a5c-4b9b0b0f7a01": true, "A_1": true, "": false, "..": false,
		"a/b": false, "_hidden": false, "ä": false, strings.Repeat("i", 100): true, strings.Repeat("i", 101): false} {
		got := folder(id, "b")
		if (got == id+"/b/") != plain || strings.Count(got, "/") != 2 || len(got) > 110 {
			t.Errorf("%q is in %q", id, got)
		}
	}
	if folder("a/b", "b") == folder("a/c", "b") {
		t.Error("two instances share a folder")
	}
}

func TestMalformedStatements(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	for _, text := range []string{"INSERT 1;\n", "-- chunk 0, -3 bytes\n", "-- chunk 0, 100 bytes\nINSERT;\n", "-- chunk 0"} {
		m := Manifest{InstanceID: "i", ID: "b", key: make([]byte, keyBytes)}
		seal, err := newSealer(m.key)
		if err == nil {
			err = seal.begin(place("i", "b", "data"))
		}
		if err == nil {
			_, err = seal.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := seal.end()
		if err == nil {
			err = s.Objects.Put(t.Context(), "i/b/data", data)
		}
		if err != nil {
			t.Fatal(err)
		}
		err = s.readStatements(t.Context(), m, describe("data", data), func(int, []byte) error { return nil })
		if !isDamaged(err) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
