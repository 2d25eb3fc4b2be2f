package client

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := `{"url":"http://127.0.0.1:9999","username":"dev","password":"secret"}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "client.json"), []byte(file), 0o600))
	broken := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(broken, "client.json"), 0o700))
	tests := map[string]struct {
		flags options
		env   map[string]string
		want  address
	}{
		"nothing said": {want: address{URL: defaultURL}},
		"development broker": {
			env:  map[string]string{"MYSQL_BROKER_DEV_DIR": dir},
			want: address{URL: "http://127.0.0.1:9999", Username: "dev", Password: "secret"},
		},
		"its URL said too": {
			flags: options{url: "http://127.0.0.1:9999/"},
			env:   map[string]string{"MYSQL_BROKER_DEV_DIR": dir},
			want:  address{URL: "http://127.0.0.1:9999", Username: "dev", Password: "secret"},
		},
		"another URL does not get its password": {
			env:  map[string]string{"MYSQL_BROKER_DEV_DIR": dir, "BROKER_URL": "https://elsewhere"},
			want: address{URL: "https://elsewhere"},
		},
		"its URL does not get another password": {
			env:  map[string]string{"MYSQL_BROKER_DEV_DIR": dir, "BROKER_USERNAME": "v", "BROKER_PASSWORD": "w"},
			want: address{URL: defaultURL, Username: "v", Password: "w"},
		},
		"flags win": {
			flags: options{url: "https://a", username: "u"},
			env:   map[string]string{"BROKER_URL": "https://b", "BROKER_USERNAME": "v", "BROKER_PASSWORD": "w"},
			want:  address{URL: "https://a", Username: "u", Password: "w"},
		},
		"all said, and the development broker's file unreadable": {
			env: map[string]string{"BROKER_URL": "https://b", "BROKER_USERNAME": "v", "BROKER_PASSWORD": "w",
				"MYSQL_BROKER_DEV_DIR": broken},
			want: address{URL: "https://b", Username: "v", Password: "w"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"MYSQL_BROKER_DEV_DIR": t.TempDir()}
			maps.Copy(env, test.env)
			test.flags.getenv = func(name string) string { return env[name] }
			got, err := test.flags.address()
			require.NoError(t, err)
			assert.True(t, got == test.want, "got %+v, want %+v", got, test.want)
		})
	}
}

type transport func() (*http.Response, error)

func (t transport) RoundTrip(*http.Request) (*http.Response, error) { return t() }

func TestAwaitGivesUpAfterLongSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const alive = time.Hour // until then the broker answers every other time
		began, polls := time.Now(), 0
		b := newBroker(address{URL: "http://broker"})
		b.http.Transport = transport(func() (*http.Response, error) {
			polls++
			if polls%2 == 0 || time.Since(began) > alive {
				return nil, errors.New("connection refused")
			}
			body := io.NopCloser(strings.NewReader(`{"state":"in progress"}`))
			return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
		})
		s := &session{broker: b, progress: &progress{out: io.Discard}}
		op := begun(create)
		err := s.await(t.Context(), work{path: "/v2/service_instances/i", op: &op})
		assert.True(t, err != nil && strings.Contains(err.Error(), "the operation's state for 10m0s"), "error = %v", err)
		assert.Equal(t, domain.InProgress, op.State, "the operation")
		silence := time.Since(began) - alive
		assert.True(t, silence >= maxSilence-time.Minute && silence <= maxSilence+time.Minute,
			"it gave up after %v of silence", silence)
	})
}

// A client that lists instances does not overwrite what another one has stored meanwhile.
func TestServicesWhileAnInstanceIsCreated(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "client.json")
	creating := &inventory{file: file, url: "http://broker"}
	in := &instance{GUID: "i", Last: begun(create), Keys: map[string]*key{"k": {GUID: "b", Last: begun(create)}}}
	require.NoError(t, creating.put("db", in))
	b := newBroker(address{URL: "http://broker"})
	b.http.Transport = transport(func() (*http.Response, error) {
		in.Last.Token, in.Keys["k"].Last.Token = "task_1", "task_2"
		assert.NoError(t, creating.put("db", in))
		assert.NoError(t, creating.putKey("db", "k", in.Keys["k"]))
		body := io.NopCloser(strings.NewReader(`{"description":"There is no such instance."}`))
		return &http.Response{StatusCode: http.StatusBadRequest, Body: body}, nil
	})
	var out bytes.Buffer
	listing := &session{broker: b, inventory: &inventory{file: file, url: "http://broker"}, out: &out}
	require.NoError(t, listing.services(t.Context(), nil))
	assert.Contains(t, out.String(), "create in progress")
	stored, of, err := creating.key("db", "k")
	require.NoError(t, err)
	assert.Equal(t, in.Last, stored.Last)
	assert.Equal(t, in.Keys["k"].Last, of.Last)
}

func TestProgressPrintsChanges(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := progress{out: &out}
	p.begin("Creating x")
	for _, description := range []string{"", "one", "one", "two\x1b[2J\u009b"} {
		p.show(description)
	}
	assert.Equal(t, "Creating x: one\nCreating x: two\\u001b[2J\\u009b\n", out.String())
}
