package mysqladmin

import (
	"context"
	"errors"
	"fmt"
)

// unfinished is a table that marks a database which the broker is filling. Its name belongs to that database alone, so
// that no copy of another database has it.
func unfinished(database string) string { return "unfinished " + database }

// UnfinishedTable is the name of the table of MarkUnfinished.
func UnfinishedTable(database string) string { return unfinished(database) }

const hasTable = "SELECT EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = ? AND table_name = ?)"

// Unfinished reports whether a database is marked by MarkUnfinished.
func (s *Server) Unfinished(ctx context.Context, database string) (marked bool, err error) {
	err = s.reads.QueryRowContext(ctx, hasTable, database, unfinished(database)).Scan(&marked)
	return marked, s.explain("look into database "+database, err)
}

// MarkUnfinished marks a database that the broker is about to fill. It returns ErrHoldsData if the database is neither
// empty nor marked.
func (s *Session) MarkUnfinished(ctx context.Context, database string) error {
	err := s.markUnfinished(ctx, database)
	if err != nil && !errors.Is(err, ErrHoldsData) {
		return fmt.Errorf("mark database %s: %w", database, err)
	}
	return err
}

func (s *Session) markUnfinished(ctx context.Context, database string) error {
	marked, err := s.exists(ctx, hasTable, database, unfinished(database))
	if err != nil || marked {
		return err
	}
	holds, err := s.exists(ctx, holdsData, database, database, database)
	if err != nil {
		return err
	}
	if holds {
		return fmt.Errorf("database %s: %w", database, ErrHoldsData)
	}
	return s.exec(ctx, "CREATE TABLE IF NOT EXISTS "+quoteIdentifier(database)+"."+quoteIdentifier(unfinished(database))+
		" (id INT PRIMARY KEY) ENGINE=InnoDB")
}

// MarkFinished undoes MarkUnfinished. It is no error if there is no mark.
func (s *Session) MarkFinished(ctx context.Context, database string) error {
	err := s.exec(ctx, "DROP TABLE IF EXISTS "+quoteIdentifier(database)+"."+quoteIdentifier(unfinished(database)))
	if err != nil {
		return fmt.Errorf("mark database %s as finished: %w", database, err)
	}
	return nil
}

// DropUnfinished is DropEmptyDatabase, which also drops a database with data that MarkUnfinished has marked.
func (s *Session) DropUnfinished(ctx context.Context, database string) error {
	marked, err := s.exists(ctx, hasTable, database, unfinished(database))
	if err != nil {
		return fmt.Errorf("look into database %s: %w", database, err)
	}
	if marked {
		return s.DropDatabase(ctx, database)
	}
	return s.DropEmptyDatabase(ctx, database)
}
