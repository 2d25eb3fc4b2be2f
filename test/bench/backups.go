package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	backupsPlan = "shared-large"
	backupsTime = 30 * time.Minute // for a backup or a restore
	rowsPerMiB  = 910              // of a table with 1 KiB of random digits in each row

	backUp, restore = "backup", "restore"
	memory          = "memory"
)

const backupsNote = "Raw: as many bytes as the database has, written to a file in the same directory with 1 MiB a call, and " +
	"one fsync. The object store is a directory there. A backup is read from the server, compressed and encrypted; a " +
	"restore goes into a new service instance, with all checksums compared. The rows are hexadecimal digits, which " +
	"compress to a half."

// measureBackups compares backups and restores with the disk.
func measureBackups(ctx context.Context, b *bench) error {
	for _, s := range b.servers {
		for _, mib := range b.sizes(100) {
			if err := b.measureBackup(ctx, s, mib); err != nil {
				return fmt.Errorf("%s, %d MiB: %w", s.Flavour, mib, err)
			}
		}
	}
	return nil
}

func (b *bench) measureBackup(ctx context.Context, s server, mib int) (err error) {
	v, err := b.newVaulted(ctx, s, mib)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.end(ctx)) }()
	rounds := b.rounds(3)
	if mib > 100 {
		rounds = 1
	}
	c, err := compare(ctx, rounds, v.backUpAndRestore, v.writeFile)
	if err != nil {
		return err
	}
	for _, what := range []string{backUp, restore} {
		b.report.add(c.row(what, Row{What: fmt.Sprintf("%s of %d MiB", what, mib), Flavour: s.Flavour, Unit: "MiB/s",
			Note: backupsNote}))
	}
	for _, what := range []string{backUp, restore} {
		b.report.add(Row{What: fmt.Sprintf("broker's memory during a %s of %d MiB, more than idle", what, mib),
			Flavour: s.Flavour, Unit: "MiB", Goal: &Goal{AtMost: 64, Unit: "MiB"},
			Broker: spreadOf(pick(c.broker, memory+what)), Note: "Peak of the resident set, less what it was before the first backup."})
	}
	return nil
}

// vaulted is a broker with an object store, and an instance with data.
type vaulted struct {
	dir       string
	broker    *broker
	client    *client
	serviceID string
	planID    string
	instance  string // its path
	id        string
	bytes     int64   // of the database
	idle      float64 // MiB of memory that the broker has before the first backup
}

func (b *bench) newVaulted(ctx context.Context, s server, mib int) (v *vaulted, err error) {
	v = &vaulted{dir: filepath.Join(b.dir, "backups-"+strconv.Itoa(mib)+"-"+s.Flavour)}
	if err := os.Mkdir(v.dir, 0o700); err != nil {
		return nil, err
	}
	environment, err := b.environment(ctx, s)
	if err != nil {
		return nil, err
	}
	environment["BACKUP_STORE"] = "file://" + filepath.Join(v.dir, "objects")
	if environment["CATALOG"], err = roomyCatalog(b.options.catalog, v.dir); err != nil {
		return nil, err
	}
	if v.broker, err = b.startBroker(ctx, environment); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.end(ctx))
		}
	}()
	if v.client, err = newClient(ctx, v.broker.addr); err != nil {
		return nil, err
	}
	if v.serviceID, v.planID, err = b.plan(backupsPlan); err != nil {
		return nil, err
	}
	v.id = uuid.NewString()
	v.instance = "/v2/service_instances/" + v.id
	if err := v.client.expect(http.StatusCreated, "PUT", v.instance, v.body("")); err != nil {
		return nil, err
	}
	if err := v.fill(ctx, s, mib); err != nil {
		return nil, err
	}
	v.idle, err = residentMiB(v.broker.pid, "VmRSS")
	return v, err
}

// roomyCatalog writes a catalog whose large plan allows more data than are measured, and returns its path.
func roomyCatalog(catalog, dir string) (string, error) {
	text, err := os.ReadFile(catalog)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "catalog.yml")
	return path, os.WriteFile(path, bytes.ReplaceAll(text, []byte("max_storage_mb: 1024"),
		[]byte("max_storage_mb: 8192")), 0o600)
}

// body returns the body of a request, with parameters as JSON unless they are "".
func (v *vaulted) body(parameters string) string {
	if parameters != "" {
		parameters = `,"parameters":` + parameters
	}
	return fmt.Sprintf(`{"service_id":%q,"plan_id":%q,"organization_guid":"org","space_guid":"space","context":{"platform":`+
		`"cloudfoundry","organization_guid":"org","space_guid":"space"}%s}`, v.serviceID, v.planID, parameters)
}

// fill fills the database as the server's administrator, and measures it.
func (v *vaulted) fill(ctx context.Context, s server, mib int) error {
	status, answer, err := v.client.do("PUT", v.instance+"/service_bindings/"+uuid.NewString(),
		fmt.Sprintf(`{"service_id":%q,"plan_id":%q}`, v.serviceID, v.planID))
	if err != nil || status != http.StatusCreated {
		return errors.Join(err, fmt.Errorf("bind: status %d: %s", status, answer))
	}
	var bound struct{ Credentials struct{ Database string } }
	if err := json.Unmarshal(answer, &bound); err != nil {
		return err
	}
	db, err := s.connect(1)
	if err != nil {
		return err
	}
	defer db.Close()
	table := bound.Credentials.Database + ".filler"
	const row = "SELECT RAND() * 1000000, HEX(RANDOM_BYTES(512))"
	statements := []string{"CREATE TABLE " + table +
		" (id INT AUTO_INCREMENT PRIMARY KEY, k INT, c VARCHAR(1024) CHARACTER SET latin1, KEY (k))",
		"INSERT INTO " + table + " (k, c) " + row}
	rows := mib * rowsPerMiB
	for there := 1; there < rows; {
		more := min(there, rows-there, 20000)
		statements = append(statements, fmt.Sprintf("INSERT INTO %s (k, c) %s FROM %s LIMIT %d", table, row, table, more))
		there += more
	}
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("fill the database: %w", err)
		}
	}
	return db.QueryRowContext(ctx, "SELECT COALESCE(SUM(LENGTH(c) + 8), 0) FROM "+table).Scan(&v.bytes)
}

// backUpAndRestore takes a backup, and restores it into a new instance, which it deletes.
func (v *vaulted) backUpAndRestore(ctx context.Context) (figures, error) {
	f := figures{}
	if err := v.measure(f, backUp, func() error {
		return v.operate(ctx, "PATCH", v.instance, v.body(`{"backup":"now"}`))
	}); err != nil {
		return nil, err
	}
	path := "/v2/service_instances/" + uuid.NewString()
	if err := v.measure(f, restore, func() error {
		return v.operate(ctx, "PUT", path, v.body(fmt.Sprintf(`{"restore_from":%q}`, v.id)))
	}); err != nil {
		return nil, err
	}
	return f, v.client.expect(http.StatusOK, "DELETE", fmt.Sprintf("%s?service_id=%s&plan_id=%s", path, v.serviceID,
		v.planID), "")
}

// measure adds the throughput of an operation, and by how much the broker's memory exceeded idle meanwhile.
func (v *vaulted) measure(f figures, what string, operation func() error) error {
	// https://man7.org/linux/man-pages/man5/proc_pid_clear_refs.5.html
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", v.broker.pid), []byte("5"), 0); err != nil {
		return fmt.Errorf("reset the peak of the broker's memory: %w", err)
	}
	since := time.Now()
	if err := operation(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	f[what] = float64(v.bytes) / (1 << 20) / time.Since(since).Seconds()
	peak, err := residentMiB(v.broker.pid, "VmHWM")
	f[memory+what] = peak - v.idle
	return err
}

// residentMiB reads a figure of a process.
func residentMiB(pid int, name string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if text, is := strings.CutPrefix(line, name+":"); is {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no %s", pid, name)
}

// operate begins an operation, and waits until it has succeeded.
func (v *vaulted) operate(ctx context.Context, method, path, body string) error {
	status, answer, err := v.client.do(method, path+"?accepts_incomplete=true", body)
	if err != nil || status != http.StatusAccepted {
		return errors.Join(err, fmt.Errorf("%s: status %d: %s", method, status, answer))
	}
	var begun struct{ Operation string }
	if err := json.Unmarshal(answer, &begun); err != nil {
		return err
	}
	return v.client.awaitOperation(ctx, method, path, begun.Operation, 50*time.Millisecond, backupsTime)
}

// writeFile writes a file as large as the database.
func (v *vaulted) writeFile(context.Context) (f figures, err error) {
	path := filepath.Join(v.dir, "raw")
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.Remove(path)) }()
	block := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	since := time.Now()
	for left := v.bytes; left > 0 && err == nil; left -= int64(len(block)) {
		_, err = file.Write(block[:min(left, int64(len(block)))])
	}
	if err == nil {
		err = file.Sync()
	}
	took := float64(v.bytes) / (1 << 20) / time.Since(since).Seconds()
	return figures{backUp: took, restore: took}, errors.Join(err, file.Close())
}

func (v *vaulted) end(ctx context.Context) error {
	var errs []error
	if v.client != nil {
		errs = append(errs, v.client.expect(http.StatusOK, "DELETE", fmt.Sprintf("%s?service_id=%s&plan_id=%s", v.instance,
			v.serviceID, v.planID), ""), v.client.close())
	}
	errs = append(errs, v.broker.stop(ctx))
	return errors.Join(append(errs, os.RemoveAll(v.dir))...)
}
