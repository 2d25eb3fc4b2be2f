// Package migrations has the statements that create the broker's schema in PostgreSQL and bring it up to date.
package migrations

import "embed"

// Files are the migrations, one a file, in the order of the numbers in their names.
//
//go:embed *.sql
var Files embed.FS
