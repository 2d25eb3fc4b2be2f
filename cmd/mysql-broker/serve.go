package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/app"
	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/cmd/mysql-broker/version"
	"mysql-broker/provisioner/memory"
)

func serveCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "serve",
		Short: "Run the broker, configured by the environment",
		Long: `Run the broker until SIGTERM or SIGHUP. It then lets requests finish for at most 7 seconds, hands running
tasks to the other brokers, and exits within 10 seconds. Any number of brokers can share a PostgreSQL. The first one
migrates the schema.

Logs are JSON lines on standard error, text on a terminal.`,
		Example: `  DATABASE_URL=postgres://broker@localhost/broker ENCRYPTION_KEYSET="$KEYSET" \
    BROKER_USERNAME=broker BROKER_PASSWORD="$PASSWORD" \
    MYSQL_SERVERS="$(cat servers.json)" mysql-broker serve`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, c, err := cli.Load(config.FromEnvironment, cli.Getenv(cmd))
			if err != nil {
				return err
			}
			if err := cfg.CheckPlans(c.Plans()); err != nil {
				return &cli.ConfigError{Err: err}
			}
			log := cli.Logger(cmd, cfg.LogLevel)
			if cfg.Application.Name != "" {
				log = log.With("app", cfg.Application.Name, "app_index", cfg.Application.Index)
			}
			cfg.MemoryLimit = memory.Limit(cli.Getenv(cmd))
			log.Info("starting", "version", version.Version, "memory_mb", cfg.MemoryLimit>>20)
			a, err := app.Start(cmd.Context(), cfg, c, log)
			if err != nil {
				return err
			}
			defer log.Info("stopped")
			defer a.Close()
			select {
			case <-cmd.Context().Done():
				log.Info("stopping")
				return nil
			case err := <-a.Failed():
				return fmt.Errorf("serve: %w", err)
			}
		},
	}
	return cli.Describe(command, `  0    stopped by SIGTERM, SIGINT or SIGHUP
  1    failed, for example because PostgreSQL cannot be reached or the port is in use; standard error has the reason
`+cli.ExitConfiguration, cli.VariablesOf()+`
On Cloud Foundry, serve reads the platform's PORT, VCAP_SERVICES and VCAP_APPLICATION.`)
}
