package audit

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"mysql-broker/provisioner/plan"
)

// What a server has without any tenant: mysql_broker is the broker's account on shared servers, and db_broker_marks is
// the database with its marks.
var (
	systemDatabases = []string{"information_schema", "mysql", "performance_schema", "sys", "db_broker_marks"}
	systemAccounts  = []string{"mysql.infoschema", "mysql.session", "mysql.sys", "mariadb.sys", "mysql_broker"}
)

// privileges of each role on its database, beside EVENT. What admin has differs from server to server: at least these.
var privileges = map[string][]string{
	"read-only": {"SELECT", "SHOW VIEW"},
	"read-write": {"ALTER", "ALTER ROUTINE", "CREATE", "CREATE ROUTINE", "CREATE TEMPORARY TABLES", "CREATE VIEW",
		"DELETE", "DROP", "EXECUTE", "INDEX", "INSERT", "LOCK TABLES", "REFERENCES", "SELECT", "SHOW VIEW", "TRIGGER",
		"UPDATE"},
}

// event is what all but read-only accounts have as well, if the plan has events.
const event = "EVENT"

// restricted has the privileges that each role keeps while the instance is over its quota, with or without events.
// Admin may have more, but no write privileges.
var (
	restricted = map[string][]string{
		"read-only":  privileges["read-only"],
		"read-write": {"ALTER ROUTINE", "DELETE", "DROP", "EXECUTE", "LOCK TABLES", "SELECT", "SHOW VIEW"},
	}
	writePrivileges = []string{"ALTER", "CREATE", "CREATE ROUTINE", "CREATE TEMPORARY TABLES", "CREATE VIEW", "INDEX", "INSERT",
		"REFERENCES", "TRIGGER", "UPDATE", event}
)

// frozen are the privileges that accounts have where the data was before it was moved.
var frozen = []string{"EXECUTE", "SELECT", "SHOW VIEW"}

func (a *audit) checkShared(ctx context.Context, r records) {
	tenants := slices.DeleteFunc(slices.Concat(r.living(), r.retained, r.former),
		func(i instanceRow) bool { return i.Kind == "dedicated" })
	if err := a.checkServer(ctx, "the shared server", a.Shared, r, tenants); err != nil {
		a.report("The shared server cannot be read: %v.", err)
	}
}

// checkServer compares a server with the records of its instances.
func (a *audit) checkServer(ctx context.Context, where string, admin *sql.DB, r records, tenants []instanceRow) error {
	databases, err := Column(ctx, admin, "SELECT schema_name FROM information_schema.schemata")
	if err != nil {
		return err
	}
	databases = slices.DeleteFunc(databases, func(name string) bool { return slices.Contains(systemDatabases, name) })
	wanted := map[string]string{}
	for _, i := range tenants {
		wanted[i.Database] = fmt.Sprintf("instance %q, which is %s", i.ID, i.State)
	}
	a.compare("on "+where+", database", databases, wanted)
	return a.checkAccounts(ctx, where, admin, r, tenants)
}

func (a *audit) checkAccounts(ctx context.Context, where string, admin *sql.DB, r records,
	tenants []instanceRow) error {
	own, err := Column(ctx, admin, "SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1)")
	if err != nil {
		return err
	}
	there, err := Column(ctx, admin, "SELECT user FROM mysql.user")
	if err != nil {
		return err
	}
	there = slices.DeleteFunc(there, func(name string) bool {
		return slices.Contains(systemAccounts, name) || slices.Contains(own, name)
	})
	wanted := map[string]string{}
	expectLocked := func(account, what string) error {
		locked, err := isLocked(ctx, admin, account)
		if err == nil && !locked && slices.Contains(there, account) {
			a.report("On %s, the account %s is not locked: %s.", where, account, what)
		}
		return err
	}
	for _, i := range tenants {
		for _, b := range r.bindings {
			switch whose := fmt.Sprintf("binding %q, which is %s", b.ID, b.State); {
			case b.InstanceID != i.ID || i.former() && !b.BeforeMove:
			case i.former() && b.Rotated && !slices.Contains(there, b.Account):
			case i.former() && b.Rotated: // it has defined something
				wanted[b.Account] = whose
				if err := expectLocked(b.Account, "a former one, whose password was replaced"); err != nil {
					return err
				}
			default:
				wanted[b.Account] = whose
				if slices.Contains(there, b.Account) {
					if err := a.checkAccount(ctx, where, admin, i, b); err != nil {
						return err
					}
				}
			}
		}
		for _, q := range r.stripped {
			if q.InstanceID != i.ID {
				continue
			}
			wanted[q.Account] = fmt.Sprintf("what is retained as %q", q.InstanceID)
			if err := expectLocked(q.Account, "of retained data"); err != nil {
				return err
			}
			may, err := Column(ctx, admin, "SELECT user FROM mysql.db WHERE user = '"+q.Account+"'")
			if err != nil {
				return err
			}
			if len(may) > 0 {
				a.report("On %s, the account %s of retained data has privileges.", where, q.Account)
			}
		}
		for _, q := range r.retired {
			a.retired[q.Account] = a.retired[q.Account] || slices.Contains(there, q.Account)
			if q.InstanceID == i.ID && (slices.Contains(there, q.Account) || !r.movedFrom(i.ID)) {
				wanted[q.Account] = fmt.Sprintf("a binding that instance %q had", q.InstanceID)
				if err := expectLocked(q.Account, "a retired one"); err != nil {
					return err
				}
			}
		}
	}
	a.compare("on "+where+", account", there, wanted)
	return a.checkTraces(ctx, where, admin, there)
}

// checkTraces looks for grants and sessions of accounts that no longer exist.
func (a *audit) checkTraces(ctx context.Context, where string, admin *sql.DB, accounts []string) error {
	for what, query := range map[string]string{
		"grant to": "SELECT DISTINCT user FROM mysql.db WHERE user LIKE 'u\\_%' OR user LIKE 'broker\\_%'",
		"session of": `SELECT DISTINCT user FROM information_schema.processlist
			WHERE user LIKE 'u\_%' AND command <> 'Killed'`,
	} {
		users, err := Column(ctx, admin, query)
		if err != nil {
			return err
		}
		for _, user := range users {
			if !slices.Contains(accounts, user) && !slices.Contains(systemAccounts, user) {
				a.report("Orphan: on %s, %s %s, which is not there.", where, what, user)
			}
		}
	}
	return nil
}

func (a *audit) checkAccount(ctx context.Context, where string, admin *sql.DB, i instanceRow, b bindingRow) error {
	locked, err := isLocked(ctx, admin, b.Account)
	if err != nil {
		return err
	}
	if locked {
		a.report("On %s, the account %s of binding %q is locked.", where, b.Account, b.ID)
	}
	if i.former() {
		return a.checkPrivileges(ctx, where, admin, i, b, plan.Plan{})
	}
	limit, err := Column(ctx, admin, "SELECT max_user_connections FROM mysql.user WHERE user = ?", b.Account)
	if err != nil {
		return err
	}
	of := a.Plans.Get(i.PlanID)
	if of.Removed {
		a.report("Instance %q has the plan %s, which is not in the catalog.", i.ID, i.PlanID)
		return nil
	}
	if len(limit) == 0 {
		return nil // checkAccounts reports that the account is missing
	}
	if of.MaxConnections > 0 && fmt.Sprint(of.MaxConnections) != limit[0] {
		a.report("On %s, the account %s of binding %q may have %s connections instead of %d.", where, b.Account, b.ID,
			limit[0], of.MaxConnections)
	}
	return a.checkPrivileges(ctx, where, admin, i, b, of)
}

// checkPrivileges compares the privileges of an account with its role. Where the data was before it was moved, it
// may only read.
func (a *audit) checkPrivileges(ctx context.Context, where string, admin *sql.DB, i instanceRow, b bindingRow,
	of plan.Plan) error {
	grantee := "'" + b.Account + "'@'%'"
	global, err := Column(ctx, admin, `SELECT privilege_type FROM information_schema.user_privileges
		WHERE grantee = ? AND privilege_type <> 'USAGE'`, grantee)
	if err != nil {
		return err
	}
	if len(global) > 0 {
		a.report("On %s, the account %s has privileges outside its database: %q.", where, b.Account, global)
	}
	granted, err := Column(ctx, admin, `SELECT CONCAT(IF(is_grantable = 'YES', 'grantable ', ''), privilege_type)
		FROM information_schema.schema_privileges WHERE grantee = ? AND table_schema = ? ORDER BY privilege_type`,
		grantee, strings.ReplaceAll(i.Database, "_", `\_`))
	if err != nil {
		return err
	}
	elsewhere, err := Column(ctx, admin, `SELECT table_schema FROM information_schema.schema_privileges
		WHERE grantee = ? AND table_schema <> ?`, grantee, strings.ReplaceAll(i.Database, "_", `\_`))
	if err != nil {
		return err
	}
	if len(elsewhere) > 0 {
		a.report("On %s, the account %s has privileges on other databases: %q.", where, b.Account, elsewhere)
	}
	if i.former() {
		if slices.ContainsFunc(granted, func(p string) bool { return !slices.Contains(frozen, p) }) ||
			!slices.Contains(granted, "SELECT") {
			a.report("On %s, where the data was before, the account %s has, as %s: %q.", where, b.Account, b.Role, granted)
		}
		return nil
	}
	if !rightPrivileges(b.Role, granted, of.Events, i.Over) {
		a.report("On %s, the account %s has, as %s (events: %t, over its quota: %t): %q.", where, b.Account, b.Role,
			of.Events, i.Over, granted)
	}
	return nil
}

func rightPrivileges(role string, granted []string, events, over bool) bool {
	wanted := privileges
	if over {
		wanted = restricted
	}
	events = events && !over && role != "read-only"
	if slices.Contains(granted, event) != events {
		return false
	}
	granted = slices.DeleteFunc(slices.Clone(granted), func(p string) bool { return p == event })
	if role != "admin" {
		return slices.Equal(granted, wanted[role])
	}
	for _, privilege := range wanted["read-write"] {
		if !slices.Contains(granted, privilege) {
			return false
		}
	}
	return !slices.ContainsFunc(granted, func(p string) bool {
		return strings.HasPrefix(p, "grantable") || over && slices.Contains(writePrivileges, p)
	})
}

// isLocked is false for an account that does not exist.
func isLocked(ctx context.Context, admin *sql.DB, account string) (bool, error) {
	query := "SELECT account_locked FROM mysql.user WHERE user = ?"
	version, err := Column(ctx, admin, "SELECT VERSION()")
	if err != nil {
		return false, err
	}
	if strings.Contains(version[0], "MariaDB") {
		query = "SELECT IF(JSON_VALUE(priv, '$.account_locked'), 'Y', 'N') FROM mysql.global_priv WHERE user = ?"
	}
	locked, err := Column(ctx, admin, query, account)
	return slices.Contains(locked, "Y"), err
}

// Column runs a query that returns one column.
func Column(ctx context.Context, db *sql.DB, query string, args ...any) (all []string, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			return nil, err
		}
		all = append(all, value)
	}
	return all, rows.Err()
}
