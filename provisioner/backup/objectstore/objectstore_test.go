package objectstore_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	require.NoError(t, err)
	for _, s := range []objectstore.Store{bucket, objectstore.OpenDirectory(t.TempDir())} {
		t.Run(s.String()[:4], func(t *testing.T) {
			t.Parallel()
			testStore(t, s)
		})
	}
}

func testStore(t *testing.T, s objectstore.Store) {
	ctx := t.Context()
	must := func(err error) { require.NoError(t, err) }
	must(objectstore.Probe(ctx, s))
	large := bytes.Repeat([]byte("0123456789"), 2<<20) // more than one part
	must(s.Put(ctx, "i/b/one", []byte("first")))
	must(s.Put(ctx, "i/b/one", []byte("second")))
	must(s.Put(ctx, "i/b/large", large))
	must(s.Create(ctx, "i/c/manifest", []byte("m")))
	must(s.Put(ctx, "j/empty", nil))
	for name, other := range map[string][]byte{"i/c/manifest": []byte("other"), "i/b/large": append(large, '.')} {
		assert.ErrorIs(t, s.Create(ctx, name, other), objectstore.ErrExists, "create %s, which exists", name)
	}
	for name, want := range map[string][]byte{"i/b/one": []byte("second"), "i/b/large": large, "i/c/manifest": []byte("m"),
		"j/empty": nil} {
		got, err := s.Get(ctx, name, int64(len(large)))
		assert.True(t, err == nil && bytes.Equal(got, want), "%s: %d bytes instead of %d, %v", name, len(got), len(want), err)
	}
	_, err := s.Get(ctx, "i/b/one", 5)
	assert.Error(t, err, "an object that is larger than it should be was read")
	_, err = s.Get(ctx, "i/b", 100)
	assert.ErrorIs(t, err, objectstore.ErrNotFound, "read a folder")
	_, err = s.Get(ctx, "i/missing", 100)
	assert.ErrorIs(t, err, objectstore.ErrNotFound, "read what is missing")
	list := func(prefix string) (names []string) {
		must(s.List(ctx, prefix, func(name string) error {
			names = append(names, name)
			return nil
		}))
		slices.Sort(names)
		return names
	}
	for prefix, want := range map[string][]string{"": {"i/b/large", "i/b/one", "i/c/manifest", "j/empty"},
		"i/b/": {"i/b/large", "i/b/one"}, "i/b/o": {"i/b/one"}, "none/": nil} {
		got := list(prefix)
		assert.True(t, slices.Equal(got, want), "list %q: %q", prefix, got)
	}
	stop := errors.New("stop")
	assert.ErrorIs(t, s.List(ctx, "", func(string) error { return stop }), stop, "a listing that is stopped")
	for _, name := range append(list(""), "i/b/one", "never/was") {
		must(s.Delete(ctx, name))
	}
	left := list("")
	assert.Empty(t, left, "%q is left", left)
	must(s.Put(ctx, "i/b/one", []byte("again"))) // in a folder that was removed
}

// A directory on which nothing is mounted must not be filled.
func TestDirectoryIsNotCreated(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "missing")
	assert.ErrorIs(t, objectstore.Probe(t.Context(), objectstore.OpenDirectory(root)), fs.ErrNotExist)
	_, err := os.Stat(root)
	assert.ErrorIs(t, err, fs.ErrNotExist, "it exists")
}

// TestS3Refusals tells what a service refuses from what may work again.
func TestS3Refusals(t *testing.T) {
	t.Parallel()
	service := s3.Start(t)
	open := func(c objectstore.S3Config) *objectstore.S3 {
		c.Endpoint, c.Insecure = cmp.Or(c.Endpoint, service.Address), true
		s, err := objectstore.OpenS3(c)
		require.NoError(t, err)
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
			assert.False(t, !objectstore.Refused(err) && !(name == "no bucket" && errors.Is(err, objectstore.ErrNotFound)),
				"%s: %s: %v", name, what, err)
		}
	}
	s := open(objectstore.S3Config{Bucket: s3.Bucket, AccessKey: s3.AccessKey, SecretKey: s3.SecretKey})
	service.Stop(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	assert.Error(t, objectstore.Probe(ctx, s), "a service that is down passes the probe")
	for what, s := range map[string]*objectstore.S3{"a service that is down": s,
		"a name that does not resolve": open(objectstore.S3Config{Endpoint: "s3.invalid", Bucket: s3.Bucket})} {
		err := s.Put(ctx, "o", []byte("x"))
		assert.False(t, err == nil || objectstore.Refused(err), "%s: %v", what, err)
	}
	service.Start(t)
	assert.NoError(t, s.Put(ctx, "o", []byte("x")), "a service that is up again")
}

// An operator reads which clocks to compare when a service refuses the time of a signature.
func TestSkewedClock(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<Error><Code>RequestTimeTooSkewed</Code><Message>The difference is too large.</Message></Error>")
	}))
	t.Cleanup(service.Close)
	s, err := objectstore.OpenS3(objectstore.S3Config{Endpoint: strings.TrimPrefix(service.URL, "http://"), Insecure: true,
		Bucket: "backups", AccessKey: "key", SecretKey: "secret", Region: "us-east-1"})
	require.NoError(t, err)
	_, reading := s.Get(t.Context(), "o", 1)
	for what, err := range map[string]error{"put": s.Put(t.Context(), "o", nil), "get": reading,
		"create": s.Create(t.Context(), "o", nil), "delete": s.Delete(t.Context(), "o"),
		"list": s.List(t.Context(), "", func(string) error { return nil })} {
		assert.True(t, objectstore.Refused(err) && !errors.Is(err, objectstore.ErrNotFound), "%s: %v", what, err)
		assert.ErrorContains(t, err, "its clock and that of this host", what)
	}
}
