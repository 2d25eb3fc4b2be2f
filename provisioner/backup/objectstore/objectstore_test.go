package objectstore_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"mysql-broker/provisioner/backup/objectstore"
	"mysql-broker/test/s3"
	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// TestStores runs the same requests on a bucket and on a directory.
func TestStores(t *testing.T) {
	t.Parallel()
	service := s3.Start(t)
	bucket, err := objectstore.OpenS3(objectstore.S3Config{Endpoint: service.Address, Insecure: true, Bucket: s3.Bucket,
		Prefix: "a/prefix/", AccessKey: s3.AccessKey, SecretKey: s3.SecretKey})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []objectstore.Store{bucket, objectstore.OpenDirectory(t.TempDir())} {
		t.Run(s.String()[:4], func(t *testing.T) {
			t.Parallel()
			testStore(t, s)
		})
	}
}

func testStore(t *testing.T, s objectstore.Store) {
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(objectstore.Probe(ctx, s))
	large := bytes.Repeat([]byte("0123456789"), 2<<20) // more than one part
	must(s.Put(ctx, "i/b/one", []byte("first")))
	must(s.Put(ctx, "i/b/one", []byte("second")))
	must(s.Put(ctx, "i/b/large", large))
	must(s.Create(ctx, "i/c/manifest", []byte("m")))
	must(s.Put(ctx, "j/empty", nil))
	for name, other := range map[string][]byte{"i/c/manifest": []byte("other"), "i/b/large": append(large, '.')} {
		if err := s.Create(ctx, name, other); !errors.Is(err, objectstore.ErrExists) {
			t.Errorf("create %s, which exists: %v", name, err)
		}
	}
	for name, want := range map[string][]byte{"i/b/one": []byte("second"), "i/b/large": large, "i/c/manifest": []byte("m"),
		"j/empty": nil} {
		got, err := s.Get(ctx, name, int64(len(large)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes instead of %d, %v", name, len(got), len(want), err)
		}
	}
	if _, err := s.Get(ctx, "i/b/one", 5); err == nil {
		t.Error("an object that is larger than it should be was read")
	}
	if _, err := s.Get(ctx, "i/b", 100); !errors.Is(err, objectstore.ErrNotFound) {
		t.Errorf("read a folder: %v", err)
	}
	if _, err := s.Get(ctx, "i/missing", 100); !errors.Is(err, objectstore.ErrNotFound) {
		t.Errorf("read what is missing: %v", err)
	}
	list := func(prefix string) (names []string) {
		t.Helper()
		must(s.List(ctx, prefix, func(name string) error {
			names = append(names, name)
			return nil
		}))
		slices.Sort(names)
		return names
	}
	for prefix, want := range map[string][]string{"": {"i/b/large", "i/b/one", "i/c/manifest", "j/empty"},
		"i/b/": {"i/b/large", "i/b/one"}, "i/b/o": {"i/b/one"}, "none/": nil} {
		if got := list(prefix); !slices.Equal(got, want) {
			t.Errorf("list %q: %q", prefix, got)
		}
	}
	stop := errors.New("stop")
	if err := s.List(ctx, "", func(string) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a listing that is stopped: %v", err)
	}
	for _, name := range append(list(""), "i/b/one", "never/was") {
		must(s.Delete(ctx, name))
	}
	if left := list(""); len(left) != 0 {
		t.Errorf("%q is left", left)
	}
	must(s.Put(ctx, "i/b/one", []byte("again"))) // in a folder that was removed
}

// A directory on which nothing is mounted must not be filled.
func TestDirectoryIsNotCreated(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "missing")
	if err := objectstore.Probe(t.Context(), objectstore.OpenDirectory(root)); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it exists: %v", err)
	}
}

// TestS3Refusals tells what a service refuses from what may work again.
func TestS3Refusals(t *testing.T) {
	t.Parallel()
	service := s3.Start(t)
	open := func(c objectstore.S3Config) *objectstore.S3 {
		t.Helper()
		c.Endpoint, c.Insecure = service.Address, true
		s, err := objectstore.OpenS3(c)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, c := range map[string]objectstore.S3Config{
		"wrong key":  {Bucket: s3.Bucket, AccessKey: s3.AccessKey, SecretKey: "wrong"},
		"no bucket":  {Bucket: "none-such", AccessKey: s3.AccessKey, SecretKey: s3.SecretKey},
		"wrong user": {Bucket: s3.Bucket, AccessKey: "nobody", SecretKey: s3.SecretKey},
	} {
		s := open(c)
		_, reading := s.Get(t.Context(), "o", 1)
		for what, err := range map[string]error{"put": s.Put(t.Context(), "o", []byte("x")), "get": reading,
			"list": s.List(t.Context(), "", func(string) error { return nil })} {
			if !objectstore.Refused(err) && !(name == "no bucket" && errors.Is(err, objectstore.ErrNotFound)) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
	}
	s := open(objectstore.S3Config{Bucket: s3.Bucket, AccessKey: s3.AccessKey, SecretKey: s3.SecretKey})
	service.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := objectstore.Probe(ctx, s); err == nil {
		t.Error("a service that is down passes the probe")
	}
	if err := s.Put(ctx, "o", []byte("x")); err == nil || objectstore.Refused(err) {
		t.Errorf("a service that is down: %v", err)
	}
	service.Start(t)
	if err := s.Put(ctx, "o", []byte("x")); err != nil {
		t.Errorf("a service that is up again: %v", err)
	}
}
