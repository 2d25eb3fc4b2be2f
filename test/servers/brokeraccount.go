package servers

import (
	"context"
	"crypto/rand"
	"fmt"

	sharedserver "mysql-broker/deploy/shared-server"
)

// WithBrokerAccount makes the broker's account on a server, by the SQL that operators are given.
func WithBrokerAccount(ctx context.Context, s MySQL) (MySQL, error) {
	s.BrokerUser, s.BrokerPassword = sharedserver.Account, rand.Text()
	statements, err := sharedserver.Statements(s.Flavour, s.BrokerPassword)
	if err != nil {
		return s, err
	}
	db, err := s.Open()
	if err != nil {
		return s, err
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return s, fmt.Errorf("make the broker's account: %w", err)
		}
	}
	return s, nil
}
