// Package version identifies this build of the broker.
package version

import "runtime"

// The linker sets both: -ldflags "-X mysql-broker/cmd/mysql-broker/version.Version=…".
var (
	Version = "devel"
	Commit  = "unknown"
)

// Go is the version of the Go toolchain that built the broker.
func Go() string { return runtime.Version() }
