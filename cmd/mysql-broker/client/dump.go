package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const dumpLong = `Dump a consistent snapshot of a service instance's database to FILE or, without FILE, to standard
output. It runs the mysqldump or mariadb-dump in PATH that fits the server. FILE appears, or is replaced, when the dump
is complete and on disk. The dump contains no definers, so that you can restore it into any instance.

The command creates a key of role admin and deletes it afterwards, or uses the key that --key names. A key cannot read
the routines of another one, unless it has the role admin on a dedicated MySQL server, or on MariaDB from 11.3 on. Name
the key that created them, or leave out triggers, routines and events with --no-programs. If the key cannot read
something, the dump fails. It omits nothing silently, except events if keys cannot create any.`

func (o *options) dumpCommand() *cobra.Command {
	cmd := o.command("dump NAME [FILE]", "Dump the database of a service instance", 1, (*session).dump)
	cmd.Long, cmd.Args = dumpLong, between(1, 2)
	cmd.Flags().StringVar(&o.key, "key", "", "use this key")
	cmd.Flags().BoolVar(&o.noPrograms, "no-programs", false, "leave out triggers, routines and events")
	o.completeKeys(cmd)
	return cmd
}

func (s *session) dump(ctx context.Context, args []string) error {
	name := args[0]
	if _, err := s.inventory.instance(name); err != nil {
		return err
	}
	to, err := newTarget(append(args, "-")[1], s.out)
	if err != nil {
		return err
	}
	defer to.discard()
	start := time.Now()
	var size int64
	if err := s.withLogin(ctx, name, "dump", "admin", func(l login) (err error) {
		if size, err = s.dumpDatabase(ctx, name, l, to); err != nil {
			return err
		}
		return to.keep()
	}); err != nil {
		return err
	}
	took := time.Since(start).Round(time.Second / 10)
	if to.path == "" {
		fmt.Fprintf(s.progress.out, "Dumped service instance %s: %s in %v.\n", name, mebibytes(size), took)
		return nil
	}
	return s.report(fmt.Sprintf("Dumped service instance %s into %s: %s in %v", name, to.path, mebibytes(size), took),
		map[string]any{"file": to.path, "bytes": size})
}

// dumpDatabase writes a complete dump, or returns an error.
func (s *session) dumpDatabase(ctx context.Context, name string, l login, to io.Writer) (size int64, err error) {
	server, err := l.inspect(ctx)
	if err != nil {
		return 0, err
	}
	if err := s.readable(server); err != nil {
		return 0, err
	}
	p, err := findProgram(ctx, dumping, server.flavour)
	if err != nil {
		return 0, err
	}
	if p.flavour != server.flavour && len(server.generated) > 0 {
		return 0, fmt.Errorf("%s writes dumps that MySQL refuses of tables with generated columns, which are: %s. Install "+
			"MySQL's mysqldump, in the package %s", p.path, strings.Join(server.generated, ", "), packages[flavourMySQL])
	}
	arguments := []string{"--single-transaction", "--quick", "--hex-blob", "--no-tablespaces", "--skip-lock-tables"}
	if p.flavour == flavourMySQL {
		// These options exclude objects of the server, for which the key has no privileges. MySQL 9.7 dumps masking policies,
		// which it reads from a table of the server.
		arguments = append(arguments, "--set-gtid-purged=OFF", "--loose-skip-masking-policies", "--loose-column-statistics=0")
	}
	if s.noPrograms {
		arguments = append(arguments, "--skip-triggers", "--skip-routines", "--skip-events")
	} else {
		arguments = append(arguments, "--triggers", "--routines")
		if server.may("EVENT") {
			arguments = append(arguments, "--events")
		}
	}
	return s.copyDump(ctx, name, p, l, to, append(arguments, l.Database)...)
}

// readable returns an error if the key cannot read everything to be dumped: the dump programs would omit the rest, or
// fail in the middle.
func (s *session) readable(server inspection) error {
	switch {
	case s.noPrograms:
		return nil
	case !server.may("TRIGGER"):
		return errors.New("the key cannot read triggers, as it is read-only or the service instance is over its quota: " +
			"use another key, or leave triggers, routines and events out with --no-programs")
	case len(server.unreadable) > 0:
		return fmt.Errorf("the key cannot read what another one made: %s. Name the key that made it with --key, or leave "+
			"triggers, routines and events out with --no-programs", strings.Join(server.unreadable, ", "))
	}
	return nil
}

func (s *session) copyDump(ctx context.Context, name string, p program, l login, to io.Writer,
	arguments ...string) (size int64, err error) {
	cmd, closeFiles, err := p.command(ctx, l, arguments...)
	if err != nil {
		return 0, err
	}
	defer closeFiles()
	end := &tail{}
	counted, stop := s.counting("Dumping service instance "+name, 0)
	defer stop()
	from, into := io.Pipe()
	cmd.Stdout = into
	copied := make(chan error, 1)
	go func() {
		err := copyWithoutDefiners(io.MultiWriter(to, end, counted), from)
		from.CloseWithError(err) // stops the program
		copied <- err
	}()
	err = cmd.Run()
	_ = into.Close()
	if copying := <-copied; copying != nil {
		return 0, copying
	}
	if err != nil {
		return 0, explain(ctx, cmd, err)
	}
	if !end.completed() {
		return 0, fmt.Errorf("%s has ended without completing the dump: %s", p.path, said(cmd))
	}
	if warnings := said(cmd); warnings != "" {
		stop()
		fmt.Fprintln(s.progress.out, warnings)
	}
	return counted.n.Load(), nil
}
