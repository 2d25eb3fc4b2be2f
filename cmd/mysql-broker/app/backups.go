package app

import (
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/backup"
)

// openVault returns nil if no object store is configured.
func openVault(cfg config.Config) (*backup.Vault, error) {
	objects, err := cfg.Backups.Open()
	if err != nil || objects == nil {
		return nil, err
	}
	return &backup.Vault{Objects: objects, Keys: cfg.Keys}, nil
}
