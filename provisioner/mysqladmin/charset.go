package mysqladmin

import (
	"context"
	"fmt"
)

// CharsetError says which of the parameters charset and collation a server does not accept, and why.
type CharsetError struct {
	Parameter string // "charset" or "collation"
	Reason    string // the rest of the sentence
}

// Sentence is for users.
func (e *CharsetError) Sentence() string {
	return fmt.Sprintf("Parameter %q %s.", e.Parameter, e.Reason)
}

func (e *CharsetError) Error() string { return e.Parameter + " " + e.Reason }

// ValidateCharset uses the parameters in a query, to find out whether CreateDatabase will accept them. If not, it
// returns a *CharsetError.
func (s *Server) ValidateCharset(ctx context.Context, charset, collation string) error {
	implied := charset == ""
	if implied {
		charset = defaultCharset
	}
	query := "SELECT CONVERT('' USING " + quoteIdentifier(charset) + ")"
	if collation != "" {
		query += " COLLATE " + quoteIdentifier(collation)
	}
	var empty string
	err := s.reads.QueryRowContext(ctx, query).Scan(&empty)
	if implied && hasNumber(err, errCollationMismatch) {
		return nil // the collation implies a charset other than the default
	}
	if wrong := charsetError(err, charset, collation); wrong != nil {
		return wrong
	}
	return s.explain("check charset and collation", err)
}

// charsetError translates a server's error about a charset or collation that it does not accept. It returns nil for
// other errors.
func charsetError(err error, charset, collation string) error {
	switch {
	case hasNumber(err, errUnknownCharset):
		return &CharsetError{"charset", fmt.Sprintf("is %q, which the server does not know", charset)}
	case hasNumber(err, errUnknownCollation):
		return &CharsetError{"collation", fmt.Sprintf("is %q, which the server does not know", collation)}
	case hasNumber(err, errCollationMismatch):
		return &CharsetError{"collation", fmt.Sprintf("is %q, which does not belong to the character set %q",
			collation, charset)}
	}
	return nil
}
