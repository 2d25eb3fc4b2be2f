package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"mysql-broker/provisioner/launcher/certificate"
)

// Kind is a way to run servers. The package launchers lists all kinds.
type Kind struct {
	Name      string     // as operators choose it
	Where     string     // for help: "on this host"
	Variables []Variable // what Configure reads, in the order that help shows them
	Places    bool       // it has nodes, so that plans may have a Placement

	// Configure reads the variables, and reports mistakes in them to env. It makes no connections.
	Configure func(env *Environment) Configured
}

// Variable documents one environment variable. Its name starts with LAUNCHER_.
type Variable struct {
	Name    string
	Default string // "" where it is required, or has none
	Meaning string
}

// Configured is a launcher that is configured and not yet open.
type Configured interface {
	// Open makes the launcher ready.
	Open(Options) (Launcher, error)

	// Beside returns an error if one broker cannot use both launchers, because they would confuse each other's servers or
	// conflict over resources. The error says which variable to change. The other launcher may be of any kind.
	Beside(other Configured) error
}

// Options are what the program that opens a launcher passes to it, whatever its kind. The zero value is for operators'
// commands, which leave all background work to the broker.
type Options struct {
	Logger *slog.Logger // names the launcher in each line; nil for none

	// Supervise makes the launcher look after its servers until it is closed: it restarts servers that died, renews their
	// certificates, and so on. Only one of the brokers that share the servers supervises them.
	Supervise bool

	// Authority returns the CA that signs the servers' certificates, and the CAs that are trusted. It is called
	// periodically. If it is nil, each server has its own CA.
	Authority func(context.Context) (certificate.Authority, error)

	// Exec runs a statement as the administrator of that server; the launcher does not store the password. If it is nil,
	// changes that need a statement take effect when the server is next started.
	Exec func(ctx context.Context, id string, e Endpoint, statement string) error

	// RecordEndpoint records where that server listens. While the launcher supervises, it is called at the start and
	// before every change of the endpoint: a new CA is recorded before a certificate signed by it is in use. It may be
	// nil.
	RecordEndpoint func(ctx context.Context, id string, e Endpoint) error

	// OnRedoFull is called when a server's redo log was full and has been enlarged; it may be nil.
	OnRedoFull func()

	// Settings are additional lines for the servers' option files, as NAME=VALUE. They override the launcher's own.
	Settings []string

	// UnlimitedMemory lets servers use more memory than their Spec says. It is for servers with many tenants, so that no
	// tenant can make the server fail.
	UnlimitedMemory bool
}

// Environment holds the variables of one launcher. If a broker has several launchers, the names of the variables
// contain the launcher's name: LAUNCHER_ZONE_1_DIR is LAUNCHER_DIR of the launcher "zone-1".
type Environment struct {
	kind     Kind
	prefix   string
	getenv   func(string) string
	problems []error
}

const prefix = "LAUNCHER_"

// NewEnvironment returns the environment of a launcher of that kind. name is "" for the only launcher of a broker.
func NewEnvironment(kind Kind, name string, getenv func(string) string) *Environment {
	e := &Environment{kind: kind, prefix: prefix, getenv: getenv}
	if name != "" {
		e.prefix += strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_"
	}
	return e
}

// Name returns the full name of a variable, as operators set it.
func (e *Environment) Name(variable string) string {
	return e.prefix + strings.TrimPrefix(variable, prefix)
}

// Value returns a variable's value, or its documented default.
func (e *Environment) Value(variable string) string {
	i := slices.IndexFunc(e.kind.Variables, func(v Variable) bool { return v.Name == variable })
	if i < 0 {
		panic("undocumented variable " + variable)
	}
	return cmp.Or(e.getenv(e.Name(variable)), e.kind.Variables[i].Default)
}

// Wrong records a mistake in a variable. The text continues a sentence that starts with the name: "is not a port".
func (e *Environment) Wrong(variable, format string, args ...any) {
	e.problems = append(e.problems, fmt.Errorf(e.Name(variable)+" "+format, args...))
}

// Err returns an error with one line per mistake.
func (e *Environment) Err() error { return errors.Join(e.problems...) }
