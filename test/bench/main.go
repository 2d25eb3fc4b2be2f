// Command bench compares the broker with the same work without a broker: the same SQL, and the PostgreSQL commits that
// prevent a loss in a crash, over warm connections, on the same servers in the same run. It prints one table. Absolute
// figures depend on the machine; the ratios show the broker's cost.
//
//	make bench
//	go run ./test/bench -only operations -flavour mysql -quick
//
// It starts its own servers, with all durability settings on, and removes them and their files at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// section measures one thing and adds rows to the report.
type section struct {
	name string
	run  func(ctx context.Context, b *bench) error
}

// sections are run in this order.
var sections = []section{
	{"operations", measureOperations},
	{"cycles", measureCycles},
	{"http", measureHTTP},
	{"dedicated", measureDedicated},
	{"kubernetes", measureKubernetes},
	{"backups", measureBackups},
	{"copies", measureCopies},
	{"moves", measureMoves},
	{"full-postgres", measureFullPostgres},
	{"full-server", measureFullServers},
	{"full-kubernetes", measureFullKubernetes},
}

func main() {
	var o options
	flag.Var(&o.only, "only", "sections to run, joined by commas, of "+sectionNames())
	flag.StringVar(&o.flavour, "flavour", "", "mariadb or mysql; all that are installed if empty")
	flag.StringVar(&o.json, "json", "", "file to write the report to as JSON")
	flag.BoolVar(&o.quick, "quick", false, "few rounds, to try it out: the figures mean little")
	flag.IntVar(&o.mib, "mib", 0, "only copies, moves and backups of so many MiB; 100 and 1024 if 0")
	flag.StringVar(&o.broker, "broker", "bin/mysql-broker", "the broker's program")
	flag.StringVar(&o.catalog, "catalog", "catalog.yml", "the broker's catalog")
	flag.StringVar(&o.dir, "dir", "/var/tmp", "where the servers keep their data meanwhile, on the disk to measure on")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	only         names
	flavour      string
	json         string
	quick        bool
	mib          int
	broker       string
	catalog, dir string
}

// names is a flag with names of sections.
type names []string

func (n *names) String() string { return strings.Join(*n, ",") }

func (n *names) Set(text string) error {
	*n = strings.Split(text, ",")
	for _, name := range *n {
		if !slices.ContainsFunc(sections, func(s section) bool { return s.name == name }) {
			return fmt.Errorf("there is no section %q, only %s", name, sectionNames())
		}
	}
	return nil
}

func sectionNames() string {
	var all []string
	for _, s := range sections {
		all = append(all, s.name)
	}
	return strings.Join(all, ", ")
}

func run(o options) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if os.Getenv(bareCatalog) != "" {
		return serveBare(ctx)
	}
	// If nobody reads the output, printing fails, and the bench stops its servers before it ends. It ignores the signal
	// itself, which a connection closed by the other side raises too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	b := &bench{options: o}
	defer func() {
		if ctx.Err() != nil {
			err = errors.New("interrupted") // whatever failed because of it
		}
		err = errors.Join(err, b.close())
	}()
	if err := b.start(ctx); err != nil {
		return err
	}
	for _, s := range sections {
		if len(o.only) > 0 && !slices.Contains(o.only, s.name) {
			continue
		}
		if _, err := fmt.Fprintf(os.Stderr, "%s …\n", s.name); err != nil {
			return err
		}
		if err := s.run(ctx, b); err != nil {
			return errors.Join(fmt.Errorf("section %s: %w", s.name, err), b.publish())
		}
	}
	return b.publish()
}

// publish prints the report so far, and also writes it as JSON if a file is named.
func (b *bench) publish() (err error) {
	if b.report.Machine.LoadAfter, err = loadAverage(); err != nil {
		return err
	}
	_, unprinted := fmt.Print(b.report.text())
	if b.options.json == "" {
		return unprinted
	}
	content, err := b.report.json()
	if err != nil {
		return errors.Join(unprinted, err)
	}
	return errors.Join(unprinted, os.WriteFile(b.options.json, content, 0o644))
}
