package mysqlgroup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// SwitchTime is how long transactions on the primary may take to end before another member becomes the primary.
const SwitchTime = 5 * time.Second

func exec(ctx context.Context, member *sql.Conn, statements ...string) error {
	for _, statement := range statements {
		if _, err := member.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// leaveTime is how long a member that is in no group any more may take to stop. One that has lost the majority waits
// for 30 seconds until its group communication ends, and is in a group sooner if it is killed.
const leaveTime = 5 * time.Second

func finishLeaving(ctx context.Context, member *sql.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	return exec(ctx, member, "STOP GROUP_REPLICATION")
}

// Join lets a member join its group. A broker that died in Begin has left the member set to begin a group, which would
// be a second one. See Hung.
func Join(ctx context.Context, member *sql.Conn) error {
	if err := finishLeaving(ctx, member); err != nil {
		return err
	}
	return exec(ctx, member, "SET GLOBAL group_replication_bootstrap_group=OFF", "START GROUP_REPLICATION")
}

// errStarting is the number of the error "Another instance of START/STOP GROUP_REPLICATION command is executing".
const errStarting = 3663

// Hung reports whether the error of Join or Begin says that the member hangs, and has to be killed.
func Hung(ctx context.Context, err error) bool {
	hung, isError := errors.AsType[*mysql.MySQLError](err)
	return isError && hung.Number == errStarting || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
}

// HasAll reports whether a member has all transactions of all members. A transaction that was acknowledged is on the
// disk of the member that was the primary then. Others may have received some that it was about to commit when it died.
// They commit these as soon as they are in a group. A group that began without them would give their GTIDs to others.
func HasAll(ctx context.Context, member *sql.Conn, own Look, all []Look) (bool, error) {
	for _, other := range all {
		var subset bool
		if err := member.QueryRowContext(ctx, "SELECT GTID_SUBSET(?, ?)", other.has(),
			own.has()).Scan(&subset); err != nil || !subset {
			return false, err
		}
	}
	return true, nil
}

// LacksApplied reports whether a member lacks transactions that others have applied. Those that they have only received
// may be about to be committed on the member itself.
func LacksApplied(ctx context.Context, member *sql.Conn, own Look, all []Look) (bool, error) {
	for _, other := range all {
		var subset bool
		if err := member.QueryRowContext(ctx, "SELECT GTID_SUBSET(?, ?)", other.Executed,
			own.has()).Scan(&subset); err != nil || !subset {
			return !subset, err
		}
	}
	return false, nil
}

// has returns the transactions that a member has executed, or will execute as soon as it is in a group.
func (m Look) has() string { return strings.Trim(m.Executed+","+m.Received, ",") }

// LostData returns an error if a member has no transactions and others have: it may have lost some that no other member
// has.
func LostData(all []Look) error {
	if CountEmpty(all) > 0 && CountEmpty(all) < len(all) {
		return errors.New("no member is in a group, and one has lost its data, which may be the only ones with every " +
			"transaction: an operator has to start the group")
	}
	return nil
}

// ErrNoneHasAll says that nobody but an operator can begin the group.
var ErrNoneHasAll = errors.New("no member has the transactions of all others: an operator has to choose one")

// BeginOrder returns the members, counted from 0, in the order in which a group that has none is tried to be begun with
// them: at last those that may take long to leave the former one.
func BeginOrder(all []Look) []int {
	var left, leaving []int
	for n, m := range all {
		if m.State == "OFFLINE" {
			left = append(left, n)
		} else {
			leaving = append(leaving, n)
		}
	}
	return append(left, leaving...)
}

// Begin begins the group with a member that HasAll. No other member may be in a group, nor begin one meanwhile. See
// Hung.
func Begin(ctx context.Context, member *sql.Conn) error {
	if err := finishLeaving(ctx, member); err != nil {
		return err
	}
	begin := exec(ctx, member, "SET GLOBAL group_replication_bootstrap_group=ON", "START GROUP_REPLICATION")
	return errors.Join(begin, exec(ctx, member, "SET GLOBAL group_replication_bootstrap_group=OFF",
		"SET GLOBAL offline_mode=OFF"))
}

// LetIn lets applications in to a member again.
func LetIn(ctx context.Context, member *sql.Conn) error {
	return exec(ctx, member, "SET GLOBAL offline_mode=OFF")
}

// EndSessions ends the sessions of applications on a former primary, which could only read.
func EndSessions(ctx context.Context, member *sql.Conn) error {
	return exec(ctx, member, "SET GLOBAL offline_mode=ON", "SET GLOBAL offline_mode=OFF")
}

// Leave has a member leave its group, so that the others need not find out that it is gone. That takes seconds, so it
// ends the sessions of applications first, which could only read.
func Leave(ctx context.Context, member *sql.Conn) error {
	return exec(ctx, member, "SET GLOBAL offline_mode=ON", "STOP GROUP_REPLICATION")
}

// MakePrimary makes a member the primary. EndSessions is then due on the former one.
// https://dev.mysql.com/doc/refman/8.4/en/group-replication-functions-for-new-primary.html
func MakePrimary(ctx context.Context, member *sql.Conn) error {
	var answer string
	return member.QueryRowContext(ctx, "SELECT group_replication_set_as_primary(@@GLOBAL.server_uuid, ?)",
		int(SwitchTime.Seconds())).Scan(&answer)
}
