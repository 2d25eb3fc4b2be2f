package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// problems collects all mistakes of a catalog, so that its author sees them together.
type problems struct {
	list []problem
}

type problem struct {
	line     int // in the file, from 1
	sentence string
}

func (p *problems) add(line int, format string, args ...any) {
	p.list = append(p.list, problem{line, fmt.Sprintf(format, args...)})
}

// err returns nil if nothing was found. A mistake in an anchored value is found once for each alias and reported once.
func (p *problems) err(file string) error {
	slices.SortFunc(p.list, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.sentence, b.sentence))
	})
	var errs []error
	for _, one := range slices.Compact(p.list) {
		errs = append(errs, fmt.Errorf("%s:%d: %s", file, one.line, one.sentence))
	}
	return errors.Join(errs...)
}
