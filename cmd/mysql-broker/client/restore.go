package client

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
)

const restoreLong = `Run the SQL of FILE, or of standard input if it is -, in the database of a service instance: mostly
a dump by "mysql-broker client dump", mysqldump or mariadb-dump, which replaces the tables in it. It runs the mysql or
mariadb in PATH that fits the server. It refuses a dump that is visibly incomplete, and stops at the first statement
that fails. Commands of the client program, such as "system", do not run.

Views, triggers, routines and events belong to the key that restores them. That is a temporary key of role read-write,
after whose deletion they still work, or the key that --key names, which can then dump the routines again.`

func (o *options) restoreCommand() *cobra.Command {
	cmd := o.command("restore NAME FILE", "Restore a dump into the database of a service instance", 2,
		(*session).restore)
	cmd.Long = restoreLong
	cmd.Flags().StringVar(&o.key, "key", "", "use this key")
	o.completeKeys(cmd)
	return cmd
}

func (s *session) restore(ctx context.Context, args []string) error {
	name := args[0]
	if _, err := s.inventory.instance(name); err != nil {
		return err
	}
	from, size, err := s.openDump(args[1])
	if err != nil {
		return err
	}
	defer from.Close()
	start := time.Now()
	var read int64
	if err := s.withLogin(ctx, name, "restore", "read-write", func(l login) error {
		server, err := l.inspect(ctx)
		if err != nil {
			return err
		}
		p, err := findProgram(ctx, restoring, server.flavour)
		if err != nil {
			return err
		}
		read, err = s.runSQL(ctx, name, p, l, from, size)
		return err
	}); err != nil {
		return err
	}
	return s.report(fmt.Sprintf("Restored service instance %s from %s: %s in %v", name, args[1], mebibytes(read),
		time.Since(start).Round(time.Second/10)), map[string]any{"file": args[1], "bytes": read})
}

// openDump opens the dump; its size is 0 if unknown. It refuses compressed files and incomplete dumps.
func (s *session) openDump(path string) (from io.ReadCloser, size int64, err error) {
	if path == "-" {
		return io.NopCloser(s.in), 0, nil
	}
	file, err := os.Open(path) // #nosec G304 -- the user's own
	if err != nil {
		return nil, 0, err
	}
	size, err = checkDump(file)
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return file, size, nil
}

// checkDump returns the size of a regular file, else 0. It accepts other files too: the SQL can come from anywhere.
func checkDump(file *os.File) (size int64, err error) {
	info, err := file.Stat()
	switch {
	case err != nil:
		return 0, err
	case info.IsDir():
		return 0, errors.New("it is a directory")
	case !info.Mode().IsRegular():
		return 0, nil
	}
	head, end := make([]byte, 512), make([]byte, tailBytes)
	n, err := file.ReadAt(head, 0)
	if head = head[:n]; err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if _, err := gzip.NewReader(bytes.NewReader(head)); err == nil {
		return 0, errors.New("it is compressed: unpack it, or pipe what `gunzip -c` prints into a restore from -")
	}
	if !bytes.Contains(head, []byte("-- MySQL dump ")) && !bytes.Contains(head, []byte("-- MariaDB dump ")) {
		return info.Size(), nil
	}
	n, err = file.ReadAt(end, max(info.Size()-tailBytes, 0))
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if !(&tail{end[:n]}).completed() {
		return 0, errors.New("the dump breaks off: its last line is not \"" + string(completion) +
			"\"; nothing was restored")
	}
	return info.Size(), nil
}

// runSQL runs statements with the program, and returns their number of bytes.
func (s *session) runSQL(ctx context.Context, name string, p program, l login, from io.Reader,
	size int64) (read int64, err error) {
	// In binary mode, the clients support only their command delimiter.
	// https://dev.mysql.com/doc/refman/8.4/en/mysql-command-options.html#option_mysql_binary-mode
	cmd, closeFiles, err := p.command(ctx, l, "--batch", "--binary-mode", "--skip-reconnect", "--local-infile=0",
		l.Database)
	if err != nil {
		return 0, err
	}
	defer closeFiles()
	counted, stop := s.counting("Restoring service instance "+name, size)
	defer stop()
	into, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("%s: %w", p.path, err)
	}
	copied := make(chan error, 1)
	go func() { // it may wait for input after the program has ended
		err := copyWithoutDefiners(into, io.TeeReader(from, counted))
		copied <- errors.Join(err, into.Close())
	}()
	if err := cmd.Wait(); err != nil {
		return 0, fmt.Errorf("%w; what comes before that in the dump is restored", explain(ctx, cmd, err))
	}
	if err := <-copied; err != nil {
		return 0, fmt.Errorf("read the dump: %w", err)
	}
	return counted.n.Load(), nil
}
