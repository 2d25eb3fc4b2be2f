package process_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process"
)

func TestLaunchesTakeSpares(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		cfg.Spares = 2
		l := open(t, cfg)
		defer l.Close()
		launch(t, l, newSpec("first")) // which makes the template, unless another test has
		awaitSpares(t, cfg, 2)
		dir := filepath.Join(cfg.Dir, "spares", spares(t, cfg)[0])
		key, err := os.ReadFile(filepath.Join(dir, "tls", "server.pem"))
		if err != nil {
			t.Fatal(err)
		}

		if ids, err := l.List(t.Context()); err != nil || !slices.Equal(ids, []string{"first"}) {
			t.Errorf("list: %v, %v, want the one server", ids, err)
		}
		spec := newSpec("second")
		cutOff := filepath.Join(cfg.Dir, "instances", spec.ID, "spare", "data") // a launch's that had just taken one
		if err := os.MkdirAll(cutOff, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := connect(t, spec, launch(t, l, spec)).PingContext(t.Context()); err != nil {
			t.Error(err)
		}
		if own, err := os.ReadFile(filepath.Join(cfg.Dir, "instances", spec.ID, "tls", "server.pem")); err != nil ||
			string(own) != string(key) {
			t.Errorf("the server was not made of a spare (%v)", err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("the spare that was taken is still there: %v", err)
		}
		if _, err := os.Stat(filepath.Join(cfg.Dir, "instances", spec.ID, "spare")); !os.IsNotExist(err) {
			t.Errorf("something of the spare was left over: %v", err)
		}
		if err := l.Destroy(t.Context(), spec.ID); err != nil {
			t.Fatal(err)
		}
		awaitSpares(t, cfg, 2)
	})
}

// Servers that are launched by two brokers at once never share a spare.
func TestManyLaunchesShareFewSpares(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		cfg.Spares = 2
		first, second := open(t, cfg), open(t, cfg)
		defer first.Close()
		defer second.Close()
		launch(t, first, newSpec("first"))
		awaitSpares(t, cfg, 2)
		errs := make(chan error)
		for i := range 4 {
			l := []*process.Launcher{first, second}[i%2]
			spec := newSpec("n" + strconv.Itoa(i))
			go func() {
				_, err := l.Launch(t.Context(), spec, ignore)
				errs <- err
			}()
		}
		for range 4 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		keys := map[string]bool{}
		for i := range 4 {
			key, err := os.ReadFile(filepath.Join(cfg.Dir, "instances", "n"+strconv.Itoa(i), "tls", "server.pem"))
			if err != nil {
				t.Error(err)
			}
			keys[string(key)] = true
		}
		if len(keys) != 4 {
			t.Errorf("4 servers have %d certificates", len(keys))
		}
	})
}

// What a broker that died was making, what fits another version or host, and what is too many, goes.
func TestUnfitSparesAreRemoved(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		cfg.Spares = 2
		l := open(t, cfg)
		launch(t, l, newSpec("first"))
		awaitSpares(t, cfg, 2)
		l.Close()
		dir := filepath.Join(cfg.Dir, "spares")
		fit := spares(t, cfg)
		for _, name := range []string{fit[0] + ".unfinished", "mysql-5.7.1,127.0.0.1,A"} {
			if err := os.MkdirAll(filepath.Join(dir, name, "data"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		l = open(t, cfg)
		defer l.Close()
		eventually(t, "only fit spares are there", func() bool { return slices.Equal(spares(t, cfg), fit) })
		l.Close()

		cfg.Host, cfg.Spares = "localhost", 1
		l = open(t, cfg)
		defer l.Close()
		eventually(t, "there is one spare for the new host", func() bool {
			now := spares(t, cfg)
			return len(now) == 1 && strings.Contains(now[0], ",localhost,") && !strings.HasSuffix(now[0], ".unfinished")
		})
		spec := newSpec("moved")
		if end := launch(t, l, spec); end.Host != "localhost" || connect(t, spec, end).PingContext(t.Context()) != nil {
			t.Errorf("the server of the new host is at %s, or cannot be reached", end.Host)
		}
	})
}

func awaitSpares(t *testing.T, cfg process.Config, n int) {
	t.Helper()
	eventually(t, strconv.Itoa(n)+" spares are ready", func() bool {
		now := spares(t, cfg)
		return len(now) == n && !slices.ContainsFunc(now, func(name string) bool {
			return strings.HasSuffix(name, ".unfinished")
		})
	})
}

// spares names what is in the directory of spares, finished or not.
func spares(t *testing.T, cfg process.Config) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(cfg.Dir, "spares"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
