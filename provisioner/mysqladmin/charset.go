package mysqladmin

import (
	"context"
	"fmt"
)

// CharsetError says which of the parameters charset and collation a server does not take, and why.
type CharsetError struct {
	Parameter string // "charset" or "collation"
	Reason    string // the rest of the sentence
}

// Sentence is for users.
func (e *CharsetError) Sentence() string {
	return fmt.Sprintf("Parameter %q %s.", e.Parameter, e.Reason)
}

func (e *CharsetError) Error() string { return e.Parameter + " " + e.Reason }

// ValidateCharset checks what is to be given to CreateDatabase, by having the server use it. What is wrong with the
// parameters is a *CharsetError.
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
		return nil // it implies a charset other than the default
	}
	if wrong := charsetError(err, charset, collation); wrong != nil {
		return wrong
	}
	return s.explain("check charset and collation", err)
}

// charsetError translates what a server says about a charset and collation that it does not take. It returns nil for
// all else.
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
