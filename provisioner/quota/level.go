package quota

import (
	"slices"

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

// Levels lists the levels above 0.
func Levels() []int { return slices.Clone(levels) }
