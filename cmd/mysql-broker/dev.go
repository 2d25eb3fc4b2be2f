package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/cmd/mysql-broker/dev"
)

func devCommand() *cobra.Command {
	var verbose bool
	command := &cobra.Command{
		Use:   "dev",
		Short: "Run the broker with private servers of PostgreSQL and MySQL, to try it",
		Long: `Run the broker with a private PostgreSQL cluster, a private shared server and dedicated servers, all of them
processes on this machine that listen on 127.0.0.1. Ctrl-C stops everything and keeps the data; the next start has
the same instances.

"mysql-broker client" and the commands for operators, such as "mysql-broker instances", find this broker: it writes the
environment of its servers to the file environment in the state directory, which a shell can also source.`,
		Example: `  mysql-broker dev
  MYSQL_BROKER_DEV_DIR=/var/tmp/second PORT=8081 mysql-broker dev --verbose`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			getenv, port := cli.Getenv(cmd), 8080
			if text := getenv("PORT"); text != "" {
				var err error
				if port, err = strconv.Atoi(text); err != nil || port < 0 || port > 65535 {
					return &cli.ConfigError{Err: errors.New("PORT is not a port number")}
				}
			}
			taken, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)) // before any server starts
			if err != nil {
				return fmt.Errorf("cannot listen on port %d; set PORT to another one: %w", port, err)
			}
			taken.Close()
			level := slog.LevelWarn
			if verbose {
				level = slog.LevelInfo
			}
			// Otherwise output to a closed pipe would end the process before its servers.
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
			return dev.Run(cmd.Context(), dev.Config{Dir: getenv("MYSQL_BROKER_DEV_DIR"), Port: port,
				Username: getenv("BROKER_USERNAME"), Password: getenv("BROKER_PASSWORD"),
				Mysqld: firstOf(getenv("MYSQLD")), CatalogPath: getenv("CATALOG"), Logger: cli.Logger(cmd, level),
				Out: cmd.OutOrStdout()})
		},
	}
	command.Flags().BoolVarP(&verbose, "verbose", "v", false, "log every request")
	return cli.Describe(command, `  0    it was stopped
  1    something did not start, or ended by itself; standard error says what
  78   PORT is not a port number`, `  MYSQL_BROKER_DEV_DIR  state directory (default .dev)
  PORT                  port to listen on (default 8080)
  BROKER_USERNAME       user name that clients send (default: generated)
  BROKER_PASSWORD       password that clients send (default: generated)
  MYSQLD                path of the mysqld or mariadbd to run; of several, separated by colons, the first (default:
                        the first one found)
  CATALOG               path of the catalog (default: the shipped one, with all that it leaves to choose)`)
}

// firstOf is the first path of a list separated by colons, "" if there is none.
func firstOf(list string) string {
	if paths := filepath.SplitList(list); len(paths) > 0 {
		return paths[0]
	}
	return ""
}
