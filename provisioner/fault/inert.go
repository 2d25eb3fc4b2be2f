//go:build !faults

package fault

import "time"

// Point does nothing without the build tag "faults".
func Point(name ...string) {}

// Statement does nothing without the build tag "faults".
func Statement(when, sql string) {}

// Lease does nothing without the build tag "faults".
func Lease(since time.Time, expire func()) {}

// ArchiveRoom is 0 without the build tag "faults".
const ArchiveRoom int64 = 0
