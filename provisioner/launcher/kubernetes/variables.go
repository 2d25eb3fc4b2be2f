package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/mysqladmin"
)

// Errors of MySQL and MariaDB for a variable that this version does not have, or that can only be set at the start.
const (
	unknownVariable  = 1193 // ER_UNKNOWN_SYSTEM_VARIABLE
	readOnlyVariable = 1238 // ER_INCORRECT_GLOBAL_LOCAL_VAR

	// ER_WRONG_USAGE: MariaDB still changes the size of its redo log, for a broker that was killed meanwhile.
	changeInProgress = 1221
)

// setGlobals sets the variables that differ between the two sizes of a resize. Variables that can only be set at the
// start keep their values until then. all is true if another resize may have set the variables. setGlobals returns
// NotYet while an earlier change of one of them is in progress.
func (l *Launcher) setGlobals(ctx context.Context, s *server, spec launcher.Spec, all bool) error {
	ctx, cancel := context.WithTimeout(ctx, setTime)
	defer cancel()
	from := []size{s.state.size}
	if all { // a variable that depends on the memory differs between these two
		from = append(from, size{MemoryMB: 1}, size{MemoryMB: 1 << 20})
	}
	for _, statement := range changedGlobals(s.state.Flavour, s.state.Resize.size, from...) {
		err := mysqladmin.ExecIf(ctx, adminLogin(s, spec), statement, func() error { return l.expectWork(ctx, s) })
		if refused, ok := errors.AsType[*mysql.MySQLError](err); ok {
			switch refused.Number {
			case unknownVariable, readOnlyVariable:
				continue
			case changeInProgress:
				return launcher.NotYet(minPoll, "Changing the server's memory")
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const setTime = 30 * time.Second // for all statements

// changedGlobals returns the statements that change a server's settings from one of several sizes to another one. The
// options maximum-… limit what sessions may set, and are not variables.
func changedGlobals(flavour string, to size, from ...size) (statements []string) {
	before := map[string]int{}
	for _, of := range from {
		for _, line := range mysqld.Settings(flavour, of.MemoryMB, 0, to.BinaryLogs) {
			before[line]++
		}
	}
	for _, line := range mysqld.Settings(flavour, to.MemoryMB, 0, to.BinaryLogs) {
		name, value, _ := strings.Cut(strings.TrimPrefix(line, "loose-"), "=")
		if before[line] == len(from) || strings.HasPrefix(name, "maximum-") {
			continue
		}
		if number, ok := strings.CutSuffix(value, "M"); ok {
			if n, err := strconv.Atoi(number); err == nil {
				value = strconv.Itoa(n << 20)
			}
		}
		statements = append(statements, fmt.Sprintf("SET GLOBAL %s = %s", strings.ReplaceAll(name, "-", "_"), value))
	}
	return statements
}
