package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mysql-broker/test/audit"
)

// Figures of a server at rest.
const (
	rss  = "RSS"
	pss  = "PSS"
	disk = "disk"
)

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

// rawFleet starts servers by hand, with the settings and files of a fleet's servers.
type rawFleet struct {
	fleet    *dedicatedFleet
	template string            // the data directory that all are copies of
	like     string            // directory of the server whose settings these are
	settings string            // the file's content
	keys     map[string][]byte // the content of its files, by name
}

// newRawFleet creates a server through the broker, and reads from it what to imitate.
func (f *dedicatedFleet) newRawFleet(ctx context.Context) (*rawFleet, error) {
	r := &rawFleet{fleet: f, keys: map[string][]byte{}}
	_, err := f.launchOne(ctx, func(dir string) error {
		r.like = dir
		settings, err := os.ReadFile(filepath.Join(dir, "mysqld.cnf"))
		if err != nil {
			return err
		}
		r.settings = string(settings)
		keys, err := os.ReadDir(filepath.Join(dir, "tls"))
		if err != nil {
			return err
		}
		for _, key := range keys {
			if r.keys[key.Name()], err = os.ReadFile(filepath.Join(dir, "tls", key.Name())); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	templates, err := filepath.Glob(filepath.Join(f.dir, "templates", f.server.Flavour+"-*"))
	if err != nil || len(templates) != 1 {
		return nil, errors.Join(err, fmt.Errorf("%d templates instead of one", len(templates)))
	}
	r.template = templates[0]
	return r, nil
}

// rawDedicated is a server started by hand.
type rawDedicated struct {
	serverDir
	fleet *rawFleet
	login audit.Credentials
	cmd   *exec.Cmd
	done  chan struct{} // closed when it has ended
}

// prepare creates all files of a server, and syncs them. i is below atOnce.
func (r *rawFleet) prepare(i int) (_ *rawDedicated, err error) {
	u, err := r.fleet.bench.makeServerDir(fmt.Sprintf("raw-%s-%d-%d", r.fleet.server.Flavour, r.fleet.spares, i))
	if err != nil {
		return nil, err
	}
	d := &rawDedicated{serverDir: u, fleet: r, login: audit.Credentials{Host: "127.0.0.1", Port: r.fleet.port + i,
		Username: "admin", Password: rand.Text(), CACertificate: string(r.keys["ca.pem"])}}
	account := "'admin'@'%'"
	files := map[string][]byte{
		"init.sql": []byte("CREATE USER " + account + " IDENTIFIED BY '" + d.login.Password + "';\n" +
			"GRANT ALL PRIVILEGES ON *.* TO " + account + " WITH GRANT OPTION;\n"),
		"mysqld.cnf": []byte(r.settingsFor(d)),
	}
	if err := os.Mkdir(d.file("tls"), 0o755); err != nil {
		return nil, err
	}
	for name, content := range r.keys {
		files[filepath.Join("tls", name)] = content
	}
	for name, content := range files {
		if err := os.WriteFile(d.file(name), content, 0o600); err != nil {
			return nil, err
		}
	}
	for _, command := range [][]string{
		{"cp", "--archive", "--sparse=auto", r.template, d.data()},
		{"chown", "--recursive", fmt.Sprintf("%d:%d", d.uid, d.gid), d.dir},
		{"sync", "--file-system", d.dir},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", command[0], err, out)
		}
	}
	return d, nil
}

func (d *rawDedicated) socket() string { return filepath.Join(d.data(), "mysqld.sock") }

// settingsFor returns the settings of the broker's server, with another directory and port.
func (r *rawFleet) settingsFor(d *rawDedicated) string {
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(r.settings, r.like, d.dir)) {
		if strings.HasPrefix(line, "port=") {
			line = fmt.Sprintf("port=%d\n", d.login.Port)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}

// start returns when the server has answered its first query.
func (d *rawDedicated) start(ctx context.Context) error {
	log, err := os.Create(d.file("mysqld.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	d.cmd = exec.Command(d.fleet.fleet.server.binary.Path, "--defaults-file="+d.file("mysqld.cnf"),
		"--init-file="+d.file("init.sql"))
	d.cmd.Dir = d.dir
	d.cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.SysProcAttr = d.owner()
	if err := d.cmd.Start(); err != nil {
		return err
	}
	d.done = make(chan struct{})
	go func() {
		_ = d.cmd.Wait() // its log says how it ended
		close(d.done)
	}()
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Lstat(d.socket()); err == nil { // constant attempts to connect would slow the server down
			err := firstQuery(ctx, d.login)
			if refused := (*net.OpError)(nil); !errors.As(err, &refused) {
				return err
			}
		}
		select {
		case <-d.done:
			text, err := os.ReadFile(d.file("mysqld.log"))
			return errors.Join(fmt.Errorf("it ended; its log:\n%s", text), err)
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// remove ends the server and removes its files.
func (d *rawDedicated) remove() error {
	if d.done != nil {
		if err := d.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		<-d.done
	}
	return os.RemoveAll(d.dir)
}

func (r *rawFleet) startOne(ctx context.Context) (took float64, err error) {
	return r.startSome(ctx, 1, 1)
}

// startMany starts all servers at once, and then four at a time, and returns the shorter time.
func (r *rawFleet) startMany(ctx context.Context) (took float64, err error) {
	together, err := r.startSome(ctx, atOnce, atOnce)
	if err != nil {
		return 0, err
	}
	inTurn, err := r.startSome(ctx, atOnce, 4)
	return min(together, inTurn), err
}

func (r *rawFleet) startSome(ctx context.Context, n, atATime int) (took float64, err error) {
	var all []*rawDedicated
	defer func() {
		for _, d := range all {
			err = errors.Join(err, d.remove())
		}
	}()
	for i := range n {
		d, err := r.prepare(i)
		if err != nil {
			return 0, err
		}
		all = append(all, d)
	}
	since := time.Now()
	err = each(n, atATime, func(i int) error { return all[i].start(ctx) })
	return milliseconds(time.Since(since)), err
}

// atRest waits for restTime, then measures the server with that directory.
func atRest(ctx context.Context, dir string) (figures, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(restTime):
	}
	pid, err := serverPID(dir)
	if err != nil {
		return nil, err
	}
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return nil, err
	}
	f := figures{}
	for line := range strings.Lines(string(rollup)) {
		fields := strings.Fields(line)
		for name, figure := range map[string]string{"Rss:": rss, "Pss:": pss} {
			if fields[0] != name {
				continue
			}
			kilobytes, err := strconv.Atoi(fields[1])
			if err != nil {
				return nil, err
			}
			f[figure] = float64(kilobytes) / 1024
		}
	}
	f[disk], err = diskUsed(dir)
	return f, err
}

// diskUsed is the space allocated to the files below a directory, in MiB.
func diskUsed(dir string) (mebibytes float64, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mebibytes += float64(info.Sys().(*syscall.Stat_t).Blocks*512) / (1 << 20)
		return nil
	})
	return mebibytes, err
}

// serverPID reads the file that a server writes.
func serverPID(dir string) (pid int, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "data", "mysqld.pid"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// killServer kills a server and does not wait for it.
func killServer(dir string) error {
	pid, err := serverPID(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}
