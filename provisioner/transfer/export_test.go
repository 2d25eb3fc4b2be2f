package transfer

import (
	"context"
	"database/sql"
	"slices"
)

// Restart makes it look as if the target had been restarted.
func (k *Known) Restart() { k.server.started -= 10 }

// CheckKinds is what refuses objects of unknown kinds, as if one of the views of information_schema were unknown.
func CheckKinds(ctx context.Context, conn *sql.Conn, unknown string) error {
	return checkKinds(ctx, conn, slices.DeleteFunc(slices.Clone(knownViews), func(view string) bool { return view == unknown }))
}
