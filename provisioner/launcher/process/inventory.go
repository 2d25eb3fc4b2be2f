package process

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/mysqladmin"
)

// inventory is what a server has, apart from rows.
type inventory struct {
	Version string
	Objects map[string]string // "account u_x@%" or "view a.b", and what must not change
}

// inventoryOf asks a server, as its admin account, through its socket.
func inventoryOf(ctx context.Context, sd serverDir, spec launcher.Spec) (found inventory, err error) {
	dir, err := os.Open(sd.dataDir())
	if err != nil {
		return found, sd.explain(err)
	}
	defer dir.Close()
	cfg := socketLogin(dir)
	cfg.User, cfg.Passwd = spec.AdminUser, spec.AdminPassword
	cfg.DBName = mysqld.InventoryDatabase
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return found, err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&found.Version); err != nil {
		return found, fmt.Errorf("server %s: ask for its version: %w", sd.id, err)
	}
	found.Objects = map[string]string{}
	for _, query := range mysqld.InventoryQueries {
		if err := mysqladmin.EachRow(ctx, db, query, func(rows *sql.Rows) error {
			var name, content sql.NullString
			err := rows.Scan(&name, &content)
			found.Objects[name.String] = content.String
			return err
		}); err != nil {
			return found, fmt.Errorf("server %s: list what it has: %w", sd.id, err)
		}
	}
	return found, nil
}

// in returns an error that names what is missing or different in a later inventory.
func (v inventory) in(later inventory) error {
	var lost []string
	for _, name := range slices.Sorted(maps.Keys(v.Objects)) {
		if content, there := later.Objects[name]; !there || content != v.Objects[name] {
			lost = append(lost, name)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("after the upgrade, %d of %d objects are missing or different: %s", len(lost), len(v.Objects),
		strings.Join(lost[:min(len(lost), 10)], ", "))
}
