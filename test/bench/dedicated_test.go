package bench

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mysql-broker/test/audit"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

const (
	launchPoll = 5 * time.Millisecond
	rawPoll    = time.Millisecond
)

// BenchmarkDedicated compares a dedicated server from the broker, from the order to its first query, with a mysqld that
// is started by hand with the same settings, on a data directory that is ready.
func BenchmarkDedicated(b *testing.B) {
	onEach(b, func(b *testing.B, s servers.MySQL) {
		env := environment(b, s)
		d := dedicated{newClient(b, testdrive.Start(b, env), "dedicated-small", launchPoll), env["LAUNCHER_DIR"]}
		raw := newRawServer(b, d, env["LAUNCHER_MYSQLD"])
		compare(b, func() time.Duration { return d.launch(b, nil) }, func() time.Duration { return raw.launch(b) })
	})
}

// dedicated makes one instance after the other.
type dedicated struct {
	*client
	launcherDir string
}

// launch makes an instance and deletes it. It returns how long it took until the first query was answered, without the
// bind. Before the deletion it calls use with the server's directory, unless use is nil.
func (d dedicated) launch(b *testing.B, use func(dir string)) time.Duration {
	took := timed(b, d.provision)()
	require.NoError(b, d.bind())
	c, err := d.account()
	require.NoError(b, err)
	took += timed(b, func() error { return firstQuery(b.Context(), c) })()
	if use != nil {
		use(d.only(b, "instances"))
	}
	require.NoError(b, d.deprovision())
	return took
}

// only returns the only directory in one of the launcher's.
func (d dedicated) only(b *testing.B, name string) string {
	found, err := filepath.Glob(filepath.Join(d.launcherDir, name, "*"))
	require.True(b, err == nil && len(found) == 1, "%d %s instead of one: %v", len(found), name, err)
	return found[0]
}

// firstQuery logs in over TCP and TLS and runs a query.
func firstQuery(ctx context.Context, c audit.Credentials) error {
	db, err := c.Open()
	if err != nil {
		return err
	}
	defer db.Close()
	var one int
	return db.QueryRowContext(ctx, "SELECT 1").Scan(&one)
}

// rawServer is a server started by hand, with the settings and files of the broker's.
type rawServer struct {
	program  string
	template string // a data directory that no server uses
	tls      string // the keys of a server of the broker's
	settings string
	dir      string
	login    audit.Credentials
}

// newRawServer reads the settings of a server that the broker starts.
func newRawServer(b *testing.B, like dedicated, program string) *rawServer {
	dir, err := os.MkdirTemp("", "raw")
	require.NoError(b, err)
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &rawServer{program: program, tls: filepath.Join(dir, "tls"), dir: filepath.Join(dir, "server"),
		login: audit.Credentials{Host: "127.0.0.1", Port: testdrive.FreePort(b), Username: "admin", Password: rand.Text()}}
	like.launch(b, func(likeDir string) {
		text, err := os.ReadFile(filepath.Join(likeDir, "mysqld.cnf"))
		recorded, reading := os.ReadFile(filepath.Join(likeDir, "state.json"))
		var state struct{ Flavour, Version string }
		require.NoError(b, errors.Join(err, reading, json.Unmarshal(recorded, &state), os.Chmod(dir, 0o711)))
		r.template = filepath.Join(like.launcherDir, "templates", state.Flavour+"-"+state.Version)
		run(b, "cp", "--archive", filepath.Join(likeDir, "tls"), r.tls)
		// The last line of a name counts.
		r.settings = fmt.Sprintf("%s\nport=%d\n", strings.ReplaceAll(string(text), likeDir, r.dir), r.login.Port)
	})
	return r
}

// launch starts a server, and kills it when it has answered its first query.
func (r *rawServer) launch(b *testing.B) time.Duration {
	b.Helper()
	r.prepare(b)
	cmd := exec.Command(r.program, "--defaults-file="+filepath.Join(r.dir, "mysqld.cnf"),
		"--init-file="+filepath.Join(r.dir, "init.sql"))
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 { // mysqld does not run as root
		owner, err := os.Stat(filepath.Join(r.dir, "data"))
		require.NoError(b, err)
		as := owner.Sys().(*syscall.Stat_t)
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: as.Uid, Gid: as.Gid}
	}
	since := time.Now()
	server := testdrive.StartProcess(b, cmd)
	defer server.Kill(b)
	for err := errors.New("not yet"); err != nil; {
		time.Sleep(rawPoll)
		require.True(b, server.Runs(), "%s ended", r.program)
		err = firstQuery(b.Context(), r.login)
		require.False(b, err != nil && !errors.Is(err, syscall.ECONNREFUSED), "%v", err)
	}
	return time.Since(since)
}

// prepare makes all files of a server, and syncs them.
func (r *rawServer) prepare(b *testing.B) {
	require.NoError(b, os.RemoveAll(r.dir))
	require.NoError(b, os.Mkdir(r.dir, 0o711))
	run(b, "cp", "--archive", "--sparse=always", r.template, filepath.Join(r.dir, "data"))
	run(b, "cp", "--archive", r.tls, filepath.Join(r.dir, "tls"))
	ca, err := os.ReadFile(filepath.Join(r.dir, "tls", "ca.pem"))
	require.NoError(b, err)
	r.login.CACertificate = string(ca)
	for name, content := range map[string]string{"mysqld.cnf": r.settings, "init.sql": fmt.Sprintf(
		"CREATE USER '%[1]s'@'%%' IDENTIFIED BY '%[2]s';\nGRANT ALL PRIVILEGES ON *.* TO '%[1]s'@'%%' WITH GRANT OPTION;\n",
		r.login.Username, r.login.Password)} {
		require.NoError(b, os.WriteFile(filepath.Join(r.dir, name), []byte(content), 0o644))
	}
	require.NoError(b, os.Mkdir(filepath.Join(r.dir, "tmp"), 0o700))
	run(b, "chown", "--reference="+filepath.Join(r.dir, "data"), filepath.Join(r.dir, "tmp"))
	run(b, "sync", "--file-system", r.dir)
}

// run runs a program that needs no input.
func run(b *testing.B, program string, arguments ...string) {
	out, err := exec.CommandContext(b.Context(), program, arguments...).CombinedOutput()
	require.NoError(b, err, "%s: %v: %s", program, err, out)
}
