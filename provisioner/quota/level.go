package quota

import (
	"slices"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
)

// Levels of a quota, in per cent. An instance leaves a level only when its data is margin below it: otherwise
// privileges would change, and log lines appear, each time the data cross the level.
const (
	Over   = 100 // accounts lose the write privileges
	margin = Over - plan.RestoreBelow
)

var levels = []int{Over, 90, 80}

// Level is the highest level that the data of an instance has reached and not left, or 0. before is the level at the
// last measurement.
func Level(used, quota int64, before int) int {
	for _, level := range levels {
		least := level
		if before >= level {
			least -= margin
		}
		if used*100 >= quota*int64(least) {
			return level
		}
	}
	return 0
}

// near is the level from which a database is measured by itself.
var near = levels[len(levels)-1]

// exactly reports whether a database with files of that size is measured by itself: what deleted rows have left free in
// its files counts only then.
func exactly(files, quota int64, over bool) bool { return over || files*100 >= quota*int64(near) }

// Used is how many bytes of its quota a database of that size uses, by the rule of the guard.
func Used(size mysqladmin.Size, quota int64, over bool) int64 {
	if exactly(size.Files, quota, over) {
		return size.Used(quota)
	}
	return size.Files
}

// Levels lists the levels above 0.
func Levels() []int { return slices.Clone(levels) }
