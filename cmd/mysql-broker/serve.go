package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"mysql-broker/broker/catalog"
	"mysql-broker/cmd/mysql-broker/app"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/cmd/mysql-broker/version"
)

func serveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run the broker, configured by the environment",
		Long:  "Run the broker until SIGTERM. It is configured by the environment:\n\n" + variablesHelp(),
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, problems := config.FromEnvironment(os.Getenv)
			c, err := catalog.Load(cfg.CatalogPath)
			if err := errors.Join(problems, err); err != nil {
				return &configError{err}
			}
			log, finish := newServeLogger(cfg.LogLevel)
			defer finish()
			if cfg.Application.Name != "" {
				log = log.With("app", cfg.Application.Name, "instance_index", cfg.Application.Index)
			}
			log.Info("starting", "version", version.Version)
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
}

func variablesHelp() string {
	var b strings.Builder
	for _, v := range config.Variables {
		fmt.Fprintf(&b, "  %-24s %s", v.Name, v.Meaning)
		if v.Default != "" {
			fmt.Fprintf(&b, " (default %s)", v.Default)
		}
		b.WriteByte('\n')
	}
	return b.String() + "\nOn Cloud Foundry, PORT, VCAP_SERVICES and VCAP_APPLICATION are read as the platform sets them.\n" +
		"Exit status 78: the configuration cannot work; standard error lists every problem."
}
