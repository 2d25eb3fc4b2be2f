package mysqladmin

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"mysql-broker/provisioner/plan"
)

// privileges of each role, granted on its database and nowhere else.
// https://dev.mysql.com/doc/refman/8.4/en/privileges-provided.html
var privileges = map[plan.Role]string{
	plan.ReadOnly: "SELECT, SHOW VIEW",
	plan.ReadWrite: "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, REFERENCES, INDEX, ALTER, CREATE TEMPORARY TABLES, " +
		"LOCK TABLES, EXECUTE, CREATE VIEW, SHOW VIEW, CREATE ROUTINE, ALTER ROUTINE, TRIGGER",
	plan.Admin: allPrivileges,
}

const (
	allPrivileges  = "ALL PRIVILEGES" // GRANT OPTION is not one of them
	eventPrivilege = "EVENT"
)

// grantStatement grants a role's privileges, and EVENT if the account may have it. Its argument is the account's name.
func (d dialect) grantStatement(role plan.Role, events bool, database string) string {
	list := privileges[role]
	switch {
	case role == plan.Admin && !events:
		list = strings.Join(d.list(role), ", ")
	case role == plan.ReadWrite && events:
		list += ", " + eventPrivilege
	}
	return grant(list, database)
}

// list are the privileges of a role that may write, without EVENT.
func (d dialect) list(role plan.Role) []string {
	list := privileges[plan.ReadWrite]
	if role == plan.Admin {
		list += d.adminPrivileges
	}
	return strings.Split(list, ", ")
}

// grant grants some privileges on a database. Its argument is the account's name.
func grant(privileges, database string) string {
	return "GRANT " + privileges + " ON " + anyTable(database) + " TO ?@'%'"
}

// anyTable is how GRANT and REVOKE name everything in a database.
func anyTable(database string) string { return quoteIdentifier(escapePattern(database)) + ".*" }

// Grant is the privileges of an account on a database.
type Grant struct {
	Account    string
	Database   string
	privileges map[string]bool // columns of mysql.db in lower case; nil if the broker's account may not read them
}

// Known reports whether it is known which privileges they are.
func (g Grant) Known() bool { return g.privileges != nil }

// Grants lists the grants on databases of accounts that may log in from any host. If the broker's account on a shared
// server may read only the names, the privileges are not known.
func (s *Server) Grants(ctx context.Context) ([]Grant, error) {
	all, err := grants(ctx, s.reads, "SELECT * FROM mysql.db WHERE host = '%'")
	if lacks, _ := accessDenied(err); lacks {
		all, err = grants(ctx, s.reads, "SELECT user, db FROM mysql.db")
	}
	return all, s.explain("list what accounts may do", err)
}

func grants(ctx context.Context, on queryer, query string) (all []Grant, err error) {
	err = EachRow(ctx, on, query, func(rows *sql.Rows) error {
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for n := range columns {
			columns[n], into[n] = strings.ToLower(columns[n]), &values[n]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		var g Grant
		for n, column := range columns {
			switch {
			case column == "user":
				g.Account = values[n].String
			case column == "db":
				g.Database = strings.NewReplacer(`\_`, "_", `\%`, "%", `\\`, `\`).Replace(values[n].String)
			case strings.HasSuffix(column, "_priv"):
				if g.privileges == nil {
					g.privileges = map[string]bool{}
				}
				g.privileges[column] = values[n].String == "Y"
			}
		}
		all = append(all, g)
		return nil
	})
	return all, err
}

// Fits reports whether the privileges are those of a role, with or without the write privileges. Unknown privileges
// fit. EVENT and TRIGGER are ignored, because plans differ in them.
func (g Grant) Fits(role plan.Role, restricted bool) bool {
	if !g.Known() || role == "" {
		return true
	}
	has := func(privilege string) bool { return g.privileges[privilegeColumn(privilege)] }
	if role == plan.ReadOnly {
		restricted = false // it has no write privileges anyway
	}
	wanted := strings.Split(privileges[role], ", ")
	if role == plan.Admin {
		wanted = strings.Split(privileges[plan.ReadWrite], ", ")
	}
	if role != plan.ReadOnly {
		wanted = append(wanted, eventPrivilege)
	}
	for _, privilege := range wanted {
		taken := restricted && slices.Contains(writePrivileges, privilege)
		if taken && has(privilege) || !taken && !has(privilege) && privilege != eventPrivilege && privilege != "TRIGGER" {
			return false
		}
	}
	if role != plan.Admin {
		for column, granted := range g.privileges {
			if granted && !slices.ContainsFunc(wanted, func(p string) bool { return privilegeColumn(p) == column }) {
				return false
			}
		}
	}
	return !g.privileges["grant_priv"]
}

// Frozen reports whether the privileges are known, and none of them is to change or delete rows: see Writes.Freeze.
func (g Grant) Frozen() bool {
	return g.Known() && !g.privileges["insert_priv"] && !g.privileges["update_priv"] && !g.privileges["delete_priv"]
}

// privilegeColumn is the column of mysql.db for a privilege.
// https://dev.mysql.com/doc/refman/8.4/en/grant-tables.html
func privilegeColumn(privilege string) string {
	if privilege == "CREATE TEMPORARY TABLES" {
		return "create_tmp_table_priv"
	}
	return strings.ReplaceAll(strings.ToLower(privilege), " ", "_") + "_priv"
}

// LockedAccounts lists the locked accounts. known is false if the broker's account may not read that.
func (s *Server) LockedAccounts(ctx context.Context) (locked []string, known bool, err error) {
	flavour, err := s.Flavour(ctx)
	if err != nil {
		return nil, false, err
	}
	query := "SELECT user FROM mysql.user WHERE host = '%' AND account_locked = 'Y'"
	if flavour.Name == MariaDB {
		query = "SELECT user FROM mysql.global_priv WHERE host = '%' AND JSON_VALUE(priv, '$.account_locked') = '1'"
	}
	locked, err = names(ctx, s.reads, query)
	if lacks, _ := accessDenied(err); lacks {
		return nil, false, nil
	}
	return locked, err == nil, s.explain("list the locked accounts", err)
}

// Strip revokes all privileges of an account, which must exist. Views, routines, triggers and events that run in
// its name fail from then on.
func (on Accounts) Strip(ctx context.Context, account string) error {
	err := on.s.execAccount(ctx, "REVOKE ALL PRIVILEGES, GRANT OPTION FROM ?@'%'", account)
	return explain("revoke the privileges of account "+account, err)
}

// GrantRole gives an account, which must exist, the privileges of a role, and EVENT if it may have that. It stays
// locked if it is.
func (on Accounts) GrantRole(ctx context.Context, account string, role plan.Role, events bool, database string) error {
	err := on.s.execAccount(ctx, on.s.dialect.grantStatement(role, events, database), account)
	return explain("grant the privileges of account "+account, err)
}

// GrantFrozen is GrantRole for an account that is to have the privileges that Freeze leaves.
func (on Accounts) GrantFrozen(ctx context.Context, account string, role plan.Role, database string) error {
	list := privileges[plan.ReadOnly]
	if role != plan.ReadOnly {
		list += ", EXECUTE"
	}
	err := on.s.execAccount(ctx, grant(list, database), account)
	return explain("grant the privileges of the frozen account "+account, err)
}
