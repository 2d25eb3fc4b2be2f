package mysqladmin

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// DatabasePrefix begins the name of each of the broker's databases on shared servers. The broker's account there needs
// privileges on no others.
const DatabasePrefix = "db_"

// AccountPrefix begins the name of each account that the broker creates for applications.
const AccountPrefix = "u_"

// globalPrivileges are the privileges that the broker's account needs on *.*. deploy/shared-server says what each is
// for.
var globalPrivileges = map[string][]string{
	MySQL:   {"CREATE USER", "PROCESS", "CONNECTION_ADMIN", "XA_RECOVER_ADMIN", showRoutine},
	MariaDB: {"CREATE USER", "PROCESS", "CONNECTION ADMIN"},
}

// showRoutine exists since MySQL 8.0.20. On older servers, routines are not measured.
const showRoutine = "SHOW_ROUTINE"

// readableColumns are the columns of the server's own tables that the broker's account must be able to read: accounts,
// and on MariaDB the texts of routines and events.
var readableColumns = map[string][]struct{ columns, table string }{
	MySQL: {{"user, host", "mysql.user"}, {"user, db", "mysql.db"}},
	MariaDB: {{"user, host", "mysql.user"}, {"user, db", "mysql.db"}, {"db, definer, body", "mysql.proc"},
		{"db, definer, body", "mysql.event"}},
}

// PrivilegesError lists what the broker's account on a server lacks.
type PrivilegesError struct {
	Server  string
	Missing []string // statements that an administrator of the server must run
}

func (e *PrivilegesError) Error() string {
	return fmt.Sprintf("server %s: the broker's account lacks privileges; an administrator of the server has to run: %s;",
		e.Server, strings.Join(e.Missing, "; "))
}

// CheckPrivileges checks that the broker's account has all the privileges that it needs on a shared server, directly or
// through a role that is active when it logs in. It also checks that MySQL accepts patterns for database names in
// grants. If something is missing, it returns a *PrivilegesError. It changes nothing.
func (on Setup) CheckPrivileges(ctx context.Context) error {
	flavour, err := on.s.Flavour(ctx)
	if err != nil {
		return err
	}
	missing, err := on.missingPrivileges(ctx, flavour)
	var orphans, threads bool
	if err == nil {
		orphans, err = on.refusesOrphans(ctx, flavour)
	}
	if err == nil {
		threads, err = on.readsThreads(ctx, flavour)
	}
	if err != nil {
		return on.s.explain("check the account's privileges", err)
	}
	on.s.refusesOrphans.Store(orphans)
	on.s.readsThreads.Store(threads)
	if len(missing) > 0 {
		return &PrivilegesError{Server: on.s.config.Name, Missing: missing}
	}
	return nil
}

func (on Setup) missingPrivileges(ctx context.Context, flavour Flavour) (statements []string, err error) {
	if flavour.Name == MySQL {
		yes, err := on.partialRevokes(ctx)
		if err != nil {
			return nil, err
		}
		if yes { // MySQL takes the patterns in grants for names, and remembers after SET what it has refused until FLUSH
			return []string{"SET PERSIST partial_revokes = OFF", "FLUSH PRIVILEGES"}, nil
		}
	}
	account, err := on.currentAccount(ctx)
	if err != nil {
		return nil, err
	}
	wanted := globalPrivileges[flavour.Name]
	if flavour.Name == MySQL && flavour.before(8, 0, 20) {
		wanted = slices.DeleteFunc(slices.Clone(wanted), func(privilege string) bool { return privilege == showRoutine })
	}
	lacking, err := on.lackingGlobally(ctx, wanted)
	if err != nil {
		return nil, err
	}
	for _, privilege := range lacking {
		statements = append(statements, "GRANT "+privilege+" ON *.* TO "+account)
	}
	for _, c := range readableColumns[flavour.Name] {
		lacks, err := on.denied(ctx, "SELECT "+c.columns+" FROM "+c.table+" LIMIT 0")
		if err != nil {
			return nil, err
		}
		if lacks {
			statements = append(statements, "GRANT SELECT ("+c.columns+") ON "+c.table+" TO "+account)
		}
	}
	lacks, err := on.cannotGrant(ctx)
	if lacks {
		statements = append(statements,
			"GRANT ALL PRIVILEGES ON `"+escapePattern(DatabasePrefix)+"%`.* TO "+account+" WITH GRANT OPTION")
	}
	return statements, err
}

// RoutinesGrant returns the statement that an administrator of the server must run, so that the broker's account can
// read the texts of routines: instances that have any are not copied otherwise. It returns "" if none is needed.
func (on Setup) RoutinesGrant(ctx context.Context) (string, error) {
	flavour, err := on.s.Flavour(ctx)
	if err != nil {
		return "", err
	}
	lacks, grant := false, "GRANT SELECT ON mysql.proc TO "
	if flavour.Name == MySQL {
		var lacking []string
		lacking, err = on.lackingGlobally(ctx, []string{showRoutine})
		lacks, grant = len(lacking) > 0 && !flavour.before(8, 0, 20), "GRANT "+showRoutine+" ON *.* TO "
	} else {
		lacks, err = on.denied(ctx, "SELECT * FROM mysql.proc LIMIT 0")
	}
	account := ""
	if err == nil && lacks {
		account, err = on.currentAccount(ctx)
	}
	if err != nil || !lacks {
		return "", on.s.explain("check whether the account can read routines", err)
	}
	return grant + account, nil
}

// orphaning are privileges each of which lets an account drop the definers of views and other objects. If the broker's
// account has none of them, MySQL refuses to let it drop definers.
// https://dev.mysql.com/doc/refman/8.4/en/stored-objects-security.html#stored-objects-security-orphan-objects
var orphaning = []string{"ALLOW_NONEXISTENT_DEFINER", "SET_USER_ID", "SUPER"}

// refusesOrphans reports whether DROP USER by the broker's account fails for a definer.
func (on Setup) refusesOrphans(ctx context.Context, flavour Flavour) (bool, error) {
	if flavour.Name != MySQL || flavour.before(8, 0, 22) {
		return false, nil
	}
	lacking, err := on.lackingGlobally(ctx, orphaning)
	return len(lacking) == len(orphaning), err
}

// partialRevokes reports whether MySQL takes `db\_%` for a name instead of a pattern.
// https://dev.mysql.com/doc/refman/8.4/en/partial-revokes.html
func (on Setup) partialRevokes(ctx context.Context) (yes bool, err error) {
	err = on.s.reads.QueryRowContext(ctx, "SELECT @@GLOBAL.partial_revokes").Scan(&yes)
	if hasNumber(err, errUnknownVariable) { // before 8.0.16
		return false, nil
	}
	return yes, err
}

// currentAccount returns the account that the broker is logged in as, quoted for GRANT.
func (on Setup) currentAccount(ctx context.Context) (string, error) {
	var account string
	if err := on.s.reads.QueryRowContext(ctx, "SELECT CURRENT_USER()").Scan(&account); err != nil {
		return "", err
	}
	at := strings.LastIndex(account, "@") // a host's name has none
	return quoteIdentifier(account[:at]) + "@" + quoteIdentifier(account[at+1:]), nil
}

// lackingGlobally returns those of the wanted privileges that SHOW GRANTS does not list for *.*. SHOW GRANTS includes
// the privileges of active roles. https://dev.mysql.com/doc/refman/8.4/en/show-grants.html
func (on Setup) lackingGlobally(ctx context.Context, wanted []string) ([]string, error) {
	grants, err := names(ctx, on.s.reads, "SHOW GRANTS")
	lacking := slices.Clone(wanted)
	for _, grant := range grants {
		list, _, global := strings.Cut(strings.TrimPrefix(grant, "GRANT "), " ON *.* TO ")
		if !global {
			continue
		}
		privileges := strings.Split(list, ",")
		lacking = slices.DeleteFunc(lacking, func(privilege string) bool {
			return list == "ALL PRIVILEGES" || slices.ContainsFunc(privileges, func(has string) bool {
				return strings.TrimSpace(has) == privilege
			})
		})
	}
	return lacking, err
}

// cannotGrant reports whether the broker's account may not grant all privileges on its databases. If SHOW GRANTS does
// not list the documented grant, cannotGrant tries to grant them on a database to an account that does not exist: a
// server first checks that the broker's account may grant them, by a grant on any pattern, and only then fails because
// the other account is missing. It does not try at once, because Galera replicates a GRANT that fails, and each node
// keeps a file about that.
func (on Setup) cannotGrant(ctx context.Context) (bool, error) {
	if listed, err := on.listsGrant(ctx); listed || err != nil {
		return false, err
	}
	_, err := on.s.reads.ExecContext(ctx, grant(allPrivileges, DatabasePrefix+"check"), "no account")
	if hasNumber(err, errGrantNoSuchAccount, errNoSuchAccount) {
		return false, nil
	}
	return accessDenied(err)
}

// listsGrant reports whether SHOW GRANTS lists all privileges on the broker's databases, or on everything, with the
// option to grant them.
func (on Setup) listsGrant(ctx context.Context) (bool, error) {
	grants, err := names(ctx, on.s.reads, "SHOW GRANTS")
	return slices.ContainsFunc(grants, func(grant string) bool {
		on, all := strings.CutPrefix(grant, "GRANT ALL PRIVILEGES ON ")
		return all && strings.HasSuffix(grant, " WITH GRANT OPTION") && (strings.HasPrefix(on, "*.* TO ") ||
			strings.HasPrefix(on, "`"+escapePattern(DatabasePrefix)+"%`.* TO "))
	}), err
}

// denied reports whether the server refuses a statement because a privilege is missing.
func (on Setup) denied(ctx context.Context, statement string) (bool, error) {
	_, err := on.s.reads.ExecContext(ctx, statement)
	return accessDenied(err)
}

func accessDenied(err error) (bool, error) {
	if hasNumber(err, denials...) {
		return true, nil
	}
	return false, err
}

// denials are the errors for a missing privilege on a database, table or column.
var denials = []uint16{1044, 1142, 1143}
