package quota

import (
	"slices"

	"mysql-broker/provisioner/plan"
)

// Levels of a quota, in per cent. A level that was reached is left only once the data take margin less, so that
// nothing is told, and nobody's privileges are changed, again and again.
const (
	Over   = 100 // data may not grow any more
	margin = Over - plan.RestoreBelow
)

var levels = []int{Over, 90, 80}

// Level is the highest level that the data of an instance have reached and not left, or 0. before is the one at the
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

// near is the level from which a database is worth a question of its own.
var near = levels[len(levels)-1]

// Levels lists the levels that there are beside 0.
func Levels() []int { return slices.Clone(levels) }
