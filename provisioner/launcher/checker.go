package launcher

import "context"

// Checker is a Launcher whose servers run elsewhere, where an operator grants it rights.
type Checker interface {
	Launcher

	// MissingRights says which rights are missing and what to do, for operators; "" if none is.
	MissingRights(ctx context.Context) (string, error)

	// Advice says, in the imperative, what operators should change even though servers run; "" for nothing.
	Advice() string

	// Try returns the error of a Launch that would be refused at once. It creates nothing.
	Try(ctx context.Context, spec Spec) error
}
