package galera

import "fmt"

// NoGroup is the group of a member that was in none yet.
const NoGroup = "00000000-0000-0000-0000-000000000000"

// Position says how much a member has: the group, and how many of its transactions; -1 if it does not have all data.
type Position struct {
	Group string
	Seqno int64
	Safe  bool // Galera was not in the middle of something, such as DDL, that it cannot continue
}

func (p Position) String() string { return fmt.Sprintf("%s:%d", p.Group, p.Seqno) }

// First returns the member, counted from 0, that is to begin a group of which no member runs: the one with the most
// transactions, or -1 if none has all data. A transaction that was acknowledged is on the disk of the member that
// acknowledged it. A member that was getting all data has none of its own.
func First(all []Position) (first int, err error) {
	first = -1
	for n, found := range all {
		switch {
		case found.Seqno < 0:
		case first >= 0 && found.Group != all[first].Group:
			return -1, fmt.Errorf("the members are of the groups %s and %s: an operator has to choose one", all[first].Group,
				found.Group)
		case first < 0 || found.Seqno > all[first].Seqno ||
			found.Seqno == all[first].Seqno && found.Safe && !all[first].Safe:
			first = n
		}
	}
	return first, nil
}
