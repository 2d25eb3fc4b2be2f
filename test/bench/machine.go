package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"
)

// machine describes the machine that the figures depend on.
type machine struct {
	Cores      int                 `json:"cores"`
	CPU        string              `json:"cpu"`
	Kernel     string              `json:"kernel"`
	FileSystem string              `json:"file_system"`  // of the servers' data
	Fdatasync  float64             `json:"fdatasync_ms"` // median, for 4 KiB appended to a file there
	LoadBefore string              `json:"load_before"`  // the kernel's average of 1 minute, when measuring began
	LoadAfter  string              `json:"load_after"`   // and when it ended: about the bench's own if nothing else ran
	Go         string              `json:"go"`
	Broker     string              `json:"broker"`
	Servers    []serverDescription `json:"servers"`
}

// serverDescription has a server's version, and its settings as it reports them.
type serverDescription struct {
	Name     string            `json:"name"`
	Version  string            `json:"version"`
	Settings map[string]string `json:"settings"`
}

// postgresSettings are the settings that the figures depend on. With other values than the given ones, a crash could
// lose committed transactions. https://www.postgresql.org/docs/current/runtime-config-wal.html
var postgresSettings = map[string]string{
	"fsync":              "on",
	"synchronous_commit": "on",
	"full_page_writes":   "on",
	"wal_sync_method":    "",
	"shared_buffers":     "",
}

func (b *bench) describe(ctx context.Context) (m machine, err error) {
	m = machine{Cores: runtime.NumCPU(), Go: runtime.Version()}
	if m.CPU, err = cpuModel(); err != nil {
		return m, err
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return m, err
	}
	m.Kernel = strings.TrimSpace(string(kernel))
	if m.FileSystem, err = fileSystem(b.dir); err != nil {
		return m, err
	}
	if m.Fdatasync, err = fdatasyncTime(b.dir); err != nil {
		return m, err
	}
	if m.LoadBefore, err = loadAverage(); err != nil {
		return m, err
	}
	version, err := exec.CommandContext(ctx, b.options.broker, "version").Output()
	if err != nil {
		return m, fmt.Errorf("%s version: %w; build it: make build", b.options.broker, err)
	}
	m.Broker = strings.TrimSpace(string(version))
	postgres, err := b.describePostgres(ctx)
	if err != nil {
		return m, err
	}
	m.Servers = append(m.Servers, postgres)
	for _, s := range b.servers {
		d, err := s.describe(ctx)
		if err != nil {
			return m, fmt.Errorf("%s: %w", s.Flavour, err)
		}
		m.Servers = append(m.Servers, d)
	}
	return m, nil
}

func (b *bench) describePostgres(ctx context.Context) (serverDescription, error) {
	d := serverDescription{Name: "PostgreSQL", Settings: map[string]string{}}
	conn, err := pgx.Connect(ctx, b.postgres.URL())
	if err != nil {
		return d, err
	}
	defer conn.Close(ctx)
	show := func(setting string) (value string, err error) {
		err = conn.QueryRow(ctx, "SHOW "+setting).Scan(&value)
		return value, err
	}
	for name := range postgresSettings {
		if d.Settings[name], err = show(name); err != nil {
			return d, err
		}
	}
	if d.Version, err = show("server_version"); err != nil {
		return d, err
	}
	return d, d.check(postgresSettings)
}

// check returns an error unless the server has the required durability.
func (d serverDescription) check(wanted map[string]string) error {
	for name, value := range wanted {
		if value != "" && d.Settings[name] != value {
			return fmt.Errorf("%s has %s = %q instead of %q", d.Name, name, d.Settings[name], value)
		}
	}
	return nil
}

func (m machine) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d cores, %s; Linux %s; %s, fdatasync %.2f ms; load %s before, %s after; %s; %s\n", m.Cores,
		m.CPU, m.Kernel, m.FileSystem, m.Fdatasync, m.LoadBefore, m.LoadAfter, m.Go, m.Broker)
	for _, s := range m.Servers {
		var settings []string
		for _, name := range slices.Sorted(maps.Keys(s.Settings)) {
			settings = append(settings, name+"="+s.Settings[name])
		}
		fmt.Fprintf(&b, "%s %s: %s\n", s.Name, s.Version, strings.Join(settings, " "))
	}
	return b.String()
}

func cpuModel() (string, error) {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value), nil
		}
	}
	return runtime.GOARCH, nil // not every architecture names a model
}

// loadAverage is the average number of runnable processes on the host.
// https://man7.org/linux/man-pages/man5/proc_loadavg.5.html
func loadAverage() (string, error) {
	content, err := os.ReadFile("/proc/loadavg")
	minute, _, _ := strings.Cut(string(content), " ")
	return minute, err
}

// fileSystem is the type of a directory's file system: the one with the longest mount point above it.
// https://man7.org/linux/man-pages/man5/proc_pid_mounts.5.html
func fileSystem(dir string) (string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	var at, kind string
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		mount := strings.TrimSuffix(fields[1], "/") + "/"
		if strings.HasPrefix(dir+"/", mount) && len(mount) >= len(at) {
			at, kind = mount, fields[2]
		}
	}
	return kind, nil
}

// fdatasyncTime is the median of 200 calls, in milliseconds.
func fdatasyncTime(dir string) (float64, error) {
	path := filepath.Join(dir, "fdatasync")
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer os.Remove(path)
	defer f.Close()
	var took []time.Duration
	for range 200 {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return 0, err
		}
		since := time.Now()
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
		took = append(took, time.Since(since))
	}
	return percentile(took, 50), nil
}
