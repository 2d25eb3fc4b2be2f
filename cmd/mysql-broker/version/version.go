// Package version identifies this build of the broker.
package version

import "runtime"

// Version is set by the linker: -ldflags "-X mysql-broker/cmd/mysql-broker/version.Version=…".
var Version = "devel"

// Go is the version of the Go toolchain that built the broker.
func Go() string { return runtime.Version() }
