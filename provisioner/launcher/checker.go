package launcher

import "context"

// Checker is a Launcher that needs rights which an operator grants it elsewhere.
type Checker interface {
	Launcher

	// MissingRights says which rights are missing and what to do, for operators; "" if none is.
	MissingRights(ctx context.Context) (string, error)
}
