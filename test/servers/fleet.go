package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sync/errgroup"

	"mysql-broker/cmd/mysql-broker/dev/pgcluster"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/launchers"
	"mysql-broker/provisioner/launcher/mysqld"
)

// Fleet is private servers under a temporary directory: PostgreSQL, and one mysqld for each installed. Each is started
// when it is first asked for. The zero value is ready; a Fleet is not safe for concurrent use.
type Fleet struct {
	BinaryLogs bool // of the mysqld; set it before

	dir       string
	postgres  *pgcluster.Cluster
	launchers []launcher.Stopper
	mysql     []MySQL
}

// serverID is what each launcher calls its one server.
const serverID = "test"

// PostgresURL is the URL of PostgreSQL's superuser.
func (f *Fleet) PostgresURL(ctx context.Context) (string, error) {
	if f.postgres != nil {
		return f.postgres.URL(), nil
	}
	if err := f.makeDir(); err != nil {
		return "", err
	}
	cluster, err := pgcluster.Start(ctx, pgcluster.Config{Dir: filepath.Join(f.dir, "postgres")})
	if err != nil {
		return "", fmt.Errorf("start PostgreSQL: %w", err)
	}
	f.postgres = cluster
	return cluster.URL(), nil
}

// AllMySQL are the mysqld, in the order of mysqld.FindBinaries. That none is installed is an error.
func (f *Fleet) AllMySQL(ctx context.Context) ([]MySQL, error) {
	if f.mysql != nil {
		return f.mysql, nil
	}
	if err := f.makeDir(); err != nil {
		return nil, err
	}
	binaries := mysqld.FindBinaries(filepath.SplitList(os.Getenv("MYSQLD"))...)
	if len(binaries) == 0 {
		return nil, errors.New("no mysqld is installed, and $MYSQLD names none")
	}
	for i, b := range binaries {
		l, err := f.openLauncher(i, b)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", b.Path, err)
		}
		f.launchers = append(f.launchers, l)
	}
	return f.launch(ctx, binaries)
}

func (f *Fleet) openLauncher(i int, b mysqld.Binary) (launcher.Stopper, error) {
	port := firstPort() + 10*i
	settings, err := Settings(b.Flavour)
	if err != nil {
		return nil, err
	}
	return launchers.OpenHere(map[string]string{"LAUNCHER_DIR": f.launcherDir(i, b), "LAUNCHER_MYSQLD": b.Path,
		"LAUNCHER_PORTS": fmt.Sprintf("%d-%d", port, port+9)},
		launcher.Options{Supervise: true, UnlimitedMemory: true, Settings: settings})
}

func (f *Fleet) launcherDir(i int, b mysqld.Binary) string {
	return filepath.Join(f.dir, strconv.Itoa(i)+"-"+b.Flavour)
}

// launch starts all servers side by side.
func (f *Fleet) launch(ctx context.Context, binaries []mysqld.Binary) ([]MySQL, error) {
	started := make([]MySQL, len(binaries))
	var all errgroup.Group
	for i, l := range f.launchers {
		all.Go(func() (err error) {
			started[i], err = f.launchOne(ctx, l, binaries[i])
			started[i].Templates = filepath.Join(f.launcherDir(i, binaries[i]), "templates")
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	f.mysql = started
	return started, nil
}

func (f *Fleet) launchOne(ctx context.Context, l launcher.Launcher, binary mysqld.Binary) (MySQL, error) {
	spec := launcher.Spec{
		ID:            serverID,
		MemoryMB:      1024, // for 512 connections; pages of it that no test uses cost nothing
		StorageMB:     1024,
		BinaryLogs:    f.BinaryLogs,
		AdminUser:     "tests",
		AdminPassword: rand.Text(),
	}
	end, err := l.Launch(ctx, spec, func(string) {})
	if err != nil {
		return MySQL{}, fmt.Errorf("start %s: %w", binary.Path, err)
	}
	return WithBrokerAccount(ctx, MySQL{
		Flavour:  binary.Flavour,
		Host:     end.Host,
		Port:     end.Port,
		User:     spec.AdminUser,
		Password: spec.AdminPassword,
		CA:       string(end.CACertificate),
	})
}

// Stop ends every server and removes all that they wrote.
func (f *Fleet) Stop(ctx context.Context) error {
	var errs []error
	for _, l := range f.launchers {
		errs = append(errs, l.Destroy(ctx, serverID))
		l.Close()
	}
	if f.postgres != nil {
		errs = append(errs, f.postgres.Stop(ctx))
	}
	if f.dir != "" {
		errs = append(errs, os.RemoveAll(f.dir))
	}
	*f = Fleet{}
	return errors.Join(errs...)
}

// makeDir makes a directory through which servers pass that run as another user than the tests.
func (f *Fleet) makeDir() error {
	if f.dir != "" {
		return nil
	}
	dir, err := os.MkdirTemp("", "mysql-broker-test-")
	if err != nil {
		return err
	}
	f.dir = dir
	return os.Chmod(dir, 0o711)
}

// firstPort keeps test binaries that run at the same time out of each other's way: a port that one's server leaves
// for a moment, to restart, is not taken by another's. All are from 20000 to 21999.
func firstPort() int { return 20000 + 50*(os.Getpid()%40) }
