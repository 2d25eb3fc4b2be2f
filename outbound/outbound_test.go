package outbound_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/outbound"
	"mysql-broker/test/limits"
)

// client is one of that server, for bodies of up to ten bytes.
func client(t *testing.T, server *httptest.Server, limit time.Duration) *http.Client {
	trusted := x509.NewCertPool()
	if server.TLS != nil {
		trusted.AddCert(server.Certificate())
	}
	c := outbound.New(outbound.Options{URL: server.URL, TLS: &tls.Config{RootCAs: trusted}, Time: limit, Bytes: 10})
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func start(t *testing.T, make func(http.Handler) *httptest.Server, answer http.HandlerFunc) *httptest.Server {
	server := make(answer)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

func TestBytes(t *testing.T) {
	t.Parallel()
	var size, sent atomic.Int64
	server := start(t, httptest.NewTLSServer, func(w http.ResponseWriter, r *http.Request) {
		assert.Empty(t, r.Header.Get("Accept-Encoding"), "the client asks for")
		for sent.Store(0); sent.Load() < size.Load(); {
			n, err := w.Write(bytes.Repeat([]byte("x"), int(min(size.Load()-sent.Load(), 1<<20))))
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	})
	c := client(t, server, limits.Stuck)
	for _, test := range []struct {
		size, allowed int64
		read          int
		fails         bool
	}{
		{size: 0}, {size: 10, read: 10}, {size: 11, read: 10, fails: true}, {size: 400 << 20, read: 10, fails: true},
		{size: 11, allowed: 11, read: 11}, {size: 9, allowed: 8, read: 9},
	} {
		size.Store(test.size)
		ctx := t.Context()
		if test.allowed > 0 {
			ctx = outbound.Allow(ctx, test.allowed)
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		require.NoError(t, err)
		response, err := c.Do(r)
		require.NoError(t, err)
		data, err := io.ReadAll(response.Body)
		response.Body.Close()
		assert.True(t, len(data) == test.read && (err != nil) == test.fails &&
			(err == nil || strings.Contains(err.Error(), "more than")), "%+v: %d bytes are read, %v", test, len(data), err)
	}
}

// No secret of a request goes anywhere else.
func TestAddresses(t *testing.T) {
	t.Parallel()
	var reached atomic.Bool
	reach := func(http.ResponseWriter, *http.Request) { reached.Store(true) }
	plain, secure := start(t, httptest.NewServer, reach), start(t, httptest.NewTLSServer, reach)
	other := start(t, httptest.NewServer, reach)
	redirects := func(make func(http.Handler) *httptest.Server, status int, to string) *httptest.Server {
		return start(t, make, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, status) })
	}
	for name, test := range map[string]struct {
		server  *httptest.Server
		address string // instead of that of the server
		says    string // "" if something is reached
	}{
		"http":                   {plain, "", ""},
		"https":                  {secure, "", ""},
		"http, then https":       {plain, "https://127.0.0.1:1", "refused"},
		"http, then another one": {plain, "http://example.com", "http://example.com does not begin with https://"},
		"http, then loopback":    {plain, other.URL, ""},
		"https, then http":       {secure, plain.URL, "does not begin with https://"},
		"https, then a file":     {secure, "file:///etc/passwd", "does not begin with https://"},
		"moved":                  {redirects(httptest.NewTLSServer, 301, secure.URL), "", "redirects to https://"},
		"found":                  {redirects(httptest.NewTLSServer, 302, secure.URL), "", "redirects to https://"},
		"307 to http":            {redirects(httptest.NewTLSServer, 307, plain.URL), "", "redirects to http://"},
		"308 on the same server": {redirects(httptest.NewTLSServer, 308, "/elsewhere"), "", "redirects to https://"},
	} {
		reached.Store(false)
		address := test.address
		if address == "" {
			address = test.server.URL
		}
		response, err := client(t, test.server, limits.Stuck).Post(address, "text/plain", strings.NewReader("secret"))
		if err == nil {
			response.Body.Close()
		}
		if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) ||
			reached.Load() != (test.says == "") {
			t.Errorf("%s: reached: %t, %v", name, reached.Load(), err)
		}
	}
}

func TestTime(t *testing.T) {
	t.Parallel()
	hang := start(t, httptest.NewTLSServer, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // the client, which is just closing its connection, could read the end of a body
	})
	for _, path := range []string{"/", "/body"} {
		response, err := client(t, hang, 50*time.Millisecond).Get(hang.URL + path)
		if err == nil {
			_, err = io.ReadAll(response.Body)
			response.Body.Close()
		}
		timeout, ok := errors.AsType[net.Error](err)
		assert.True(t, ok && timeout.Timeout(), "%s: %v", path, err)
	}
}

// No other package has an HTTP client of its own, which would follow redirects and read whatever it gets.
func TestOnlyClients(t *testing.T) {
	t.Parallel()
	own := regexp.MustCompile(`\bhttp\.((Client|Transport)\{|DefaultClient|DefaultTransport|(Get|Head|Post|PostForm)\()|` +
		`\bnew\(http\.(Client|Transport)\)`)
	files := 0
	for _, folder := range []string{"broker", "cmd", "deploy", "provisioner", "store", "visible"} {
		err := filepath.WalkDir(filepath.Join("..", folder), func(path string, _ fs.DirEntry, err error) error {
			if path == filepath.Join("..", "deploy", "release") { // fetches packages for a release, in no broker
				return fs.SkipDir
			}
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files++
			text, err := os.ReadFile(path)
			found := own.Find(text)
			assert.Nil(t, found, "%s has %s; package outbound makes clients", path, found)
			return err
		})
		require.NoError(t, err)
	}
	assert.True(t, files >= 100, "%d files are all that is looked at", files)
}

// Requests of one tenant that hang keep none of another one waiting, over connections for one request each or for many.
func TestRequestsThatHangKeepNobodyWaiting(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(http.Handler) *httptest.Server{
		"HTTP/1.1": httptest.NewServer,
		"HTTP/2": func(h http.Handler) *httptest.Server {
			server := httptest.NewUnstartedServer(h)
			server.EnableHTTP2 = true
			server.StartTLS()
			return server
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const many = 300 // more than one connection of HTTP/2 takes
			begun := make(chan string, many)
			ctx, end := context.WithCancel(t.Context())
			server := start(t, serve, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/hangs" {
					begun <- r.Proto
					<-r.Context().Done()
				}
			})
			c := client(t, server, limits.Stuck)
			var all sync.WaitGroup
			for range many {
				all.Go(func() {
					r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/hangs", nil)
					if !assert.NoError(t, err) {
						return
					}
					if response, err := c.Do(r); err == nil {
						_ = response.Body.Close()
						t.Error("what hangs was answered")
					}
				})
			}
			for range many {
				proto := <-begun
				assert.True(t, strings.HasPrefix(proto, name[:6]), "it came by %s", proto)
			}
			response, err := c.Get(server.URL + "/other")
			require.NoError(t, err, "beside requests that hang")
			assert.NoError(t, response.Body.Close())
			end()
			all.Wait()
		})
	}
}
