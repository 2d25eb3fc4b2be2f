package app

import (
	"context"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/archive"
	"mysql-broker/provisioner/backup"
)

// startArchive does nothing without an object store.
func (a *App) startArchive(context.Context) (ending, error) {
	vault, err := openVault(a.cfg)
	if err != nil || vault == nil {
		return ending{}, err
	}
	archiver := archive.Start(archive.Config{Store: a.store, Plans: a.catalog.Plans(), Fleet: a.fleet, Vault: vault,
		Logger: a.log, Memory: a.memory, Interval: a.cfg.ArchiveEach})
	return closing(archiver.Close), nil
}

// openVault returns nil if no object store is configured.
func openVault(cfg config.Config) (*backup.Vault, error) {
	objects, err := cfg.Backups.Open()
	if err != nil || objects == nil {
		return nil, err
	}
	return &backup.Vault{Objects: objects, Keys: cfg.Keys}, nil
}
