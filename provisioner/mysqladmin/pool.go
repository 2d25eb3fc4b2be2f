package mysqladmin

import (
	"database/sql"
	"fmt"

	"github.com/go-sql-driver/mysql"
)

// Login is an account and its password.
type Login struct{ User, Password string }

// OpenDatabase prepares connections, outside of the broker's pools, whose default database is the given one: as an
// account that the broker made, or as the broker itself (nil). Their sessions have the server's limits on waits, and
// may send statements of any length. The caller closes the result.
func (s *Server) OpenDatabase(database string, as *Login) (*sql.DB, error) {
	cfg, err := s.config.driver()
	if err != nil {
		return nil, err
	}
	cfg.DBName, cfg.MaxAllowedPacket = database, 1<<30-1
	if as != nil {
		cfg.User, cfg.Passwd = as.User, as.Password
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", s.name, err)
	}
	return sql.OpenDB(connector), nil
}

// CanTake reports whether a server of this flavour can hold all that one of the other flavour holds: it is of the same
// flavour, and its major and minor version are not older.
func (f Flavour) CanTake(of Flavour) bool {
	var major, minor int
	_, _ = fmt.Sscanf(of.Version, "%d.%d", &major, &minor) // parseVersion has read it
	return f.Name == of.Name && !f.before(major, minor, 0)
}
