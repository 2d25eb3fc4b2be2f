package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mysql-broker/cmd/mysql-broker/cli"
)

// list is a command that lists rows of a kind, or shows one.
type list[R row] struct {
	filters
	output
	arguments []*string // what the arguments name, from the first one on
	rows      func(*console, context.Context) iter.Seq2[R, error]
	one       func(*console, context.Context, io.Writer, bool) error // if all arguments are there; nil: they only filter
}

// command completes a command with the flags that all lists have, and with what it does.
func (l *list[R]) command(command *cobra.Command) *cobra.Command {
	l.addFlags(command)
	command.Args = cli.Between(0, len(l.arguments))
	command.RunE = l.run
	return cli.Describe(command, cli.RecordedExit, cli.RecordedEnvironment)
}

func (l *list[R]) run(cmd *cobra.Command, args []string) error {
	for n, a := range args {
		*l.arguments[n] = a
	}
	return withConsole(cmd, func(ctx context.Context, c *console) error {
		if err := l.check(ctx, c); err != nil {
			return err
		}
		if l.one != nil && len(args) == len(l.arguments) {
			return l.one(c, ctx, cmd.OutOrStdout(), l.json)
		}
		return printList(cmd.OutOrStdout(), l.output, l.rows(c, ctx))
	})
}

// filters are flags that select rows.
type filters struct {
	flags  *pflag.FlagSet
	of     string // what is selected, such as "instances"
	checks []func(context.Context, *console) error
}

func filtersOf(command *cobra.Command, of string) filters {
	return filters{flags: command.Flags(), of: of}
}

// check checks the values of the flags that need a console.
func (f *filters) check(ctx context.Context, c *console) error {
	for _, check := range f.checks {
		if err := check(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (f *filters) text(to *string, name, which string) {
	f.flags.Var(given(to), name, "only "+f.of+" "+which)
}

func (f *filters) choice(to *string, name, which string, allowed ...string) {
	value, typed := choice(to, allowed...)
	f.flags.Var(value, name, "only "+f.of+" "+which+": "+typed)
}

func (f *filters) plan(ids *[]string) {
	var name string
	f.text(&name, "plan", "of this plan, by its name or id")
	f.checks = append(f.checks, func(ctx context.Context, c *console) (err error) {
		*ids, err = c.names.plans(ctx, name)
		return err
	})
}

func (f *filters) instance(id *string, which string) {
	f.text(id, "instance", which)
	f.named(id)
}

// named makes of what a person has called an instance its id.
func (f *filters) named(id *string) {
	f.checks = append(f.checks, func(ctx context.Context, c *console) (err error) {
		*id, err = c.names.instanceOrDeleted(ctx, *id)
		return err
	})
}

func (f *filters) server(name *string) {
	f.text(name, "server", "on this shared server")
	f.checks = append(f.checks, func(ctx context.Context, c *console) error { return c.names.checkServer(ctx, *name) })
}

func (f *filters) since(to *time.Time) {
	f.flags.Var(moment(to), "since", "only "+f.of+" created since then: an age such as 90m or 3d, or a time")
}

// rowsOf makes rows of what a function of the store passes on.
func rowsOf[Q, T any, R row](ctx context.Context, q Q, each func(context.Context, Q, func(T) error) error,
	rowOf func(T) R) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		enough := errors.New("no more rows are wanted")
		err := each(ctx, q, func(t T) error {
			if !yield(rowOf(t), nil) {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			var none R
			yield(none, err)
		}
	}
}

// these are the rows of a slice, or an error.
func these[R row](all []R, err error) iter.Seq2[R, error] {
	return theseOf(all, err, func(r R) R { return r })
}

// theseOf makes rows of a slice, or of an error.
func theseOf[T any, R row](all []T, err error, rowOf func(T) R) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		for _, t := range all {
			if !yield(rowOf(t), nil) {
				return
			}
		}
		if err != nil {
			var none R
			yield(none, err)
		}
	}
}

// first returns the first row, or an error of that format if there is none.
func first[R row](rows iter.Seq2[R, error], none string, args ...any) (R, error) {
	next, stop := iter.Pull2(rows)
	defer stop()
	r, err, found := next()
	if !found {
		err = fmt.Errorf(none, args...)
	}
	return r, err
}

// collect returns so many rows at most, all for 0. It returns no rows with an error, else not nil.
func collect[R row](rows iter.Seq2[R, error], most int) ([]R, error) {
	all := []R{}
	for r, err := range rows {
		if err != nil {
			return nil, err
		}
		if all = append(all, r); len(all) == most {
			break
		}
	}
	return all, nil
}
