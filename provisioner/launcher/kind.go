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

	// Configure reads the variables. It leaves it to env to say what is wrong with them, and contacts nobody.
	Configure func(env *Environment) Configured
}

// Variable documents one environment variable, whose name begins with LAUNCHER_.
type Variable struct {
	Name    string
	Default string // "" where it is required, or has none
	Meaning string
}

// Configured is a launcher that has been configured and not opened.
type Configured interface {
	// Open makes the launcher ready.
	Open(Options) (Launcher, error)

	// Beside returns an error that says which variable to change if one broker cannot have both launchers, as they would
	// take each other for themselves or get into each other's way. The other one is of any kind.
	Beside(other Configured) error
}

// Options are what the program that opens a launcher gives it, whatever its kind. The zero value is that of a command
// of operators, which leaves all that goes on by itself to the broker.
type Options struct {
	Logger *slog.Logger // names the launcher in each line; nil for none

	// Supervise has the launcher look after its servers until it is closed: start those that died, renew their
	// certificates, and the like. Brokers that share the servers agree on one that does.
	Supervise bool

	// Authority tells which CA signs the certificates of servers, and which are trusted. It is asked again and again. If
	// it is nil, each server has a CA of its own.
	Authority func(context.Context) (certificate.Authority, error)

	// Exec runs a statement as the administrator of the server of that id, of which the launcher keeps no password. It
	// may be nil: then what takes a statement waits until the server is started the next time.
	Exec func(ctx context.Context, id string, e Endpoint, statement string) error

	// RecordEndpoint records where the server of that id listens. It is called, while the launcher supervises, at the
	// start and whenever the endpoint is about to change: a new CA before a certificate of it is in use. It may be nil.
	RecordEndpoint func(ctx context.Context, id string, e Endpoint) error

	// OnRedoFull is called when the redo log of a server was full and has been made larger; it may be nil.
	OnRedoFull func()

	// Settings are further lines of the servers' option files, as NAME=VALUE, which win over the launcher's own.
	Settings []string

	// UnlimitedMemory is for servers of many tenants, which none of them may bring to an end: they may take more memory
	// than their Spec says.
	UnlimitedMemory bool
}

// Environment is the variables of one launcher. Where a broker has several launchers, the names of the variables say
// which one they are for: LAUNCHER_DIR of the launcher "zone-1" is LAUNCHER_ZONE_1_DIR.
type Environment struct {
	kind     Kind
	prefix   string
	getenv   func(string) string
	problems []error
}

const prefix = "LAUNCHER_"

// NewEnvironment is for a launcher of that kind. name is "" for the only launcher of a broker.
func NewEnvironment(kind Kind, name string, getenv func(string) string) *Environment {
	e := &Environment{kind: kind, prefix: prefix, getenv: getenv}
	if name != "" {
		e.prefix += strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_"
	}
	return e
}

// Name is what operators call a variable of the kind.
func (e *Environment) Name(variable string) string {
	return e.prefix + strings.TrimPrefix(variable, prefix)
}

// Value is a variable of the kind or its documented default.
func (e *Environment) Value(variable string) string {
	i := slices.IndexFunc(e.kind.Variables, func(v Variable) bool { return v.Name == variable })
	if i < 0 {
		panic("undocumented variable " + variable)
	}
	return cmp.Or(e.getenv(e.Name(variable)), e.kind.Variables[i].Default)
}

// Wrong says what is wrong with a variable, as a sentence goes on after its name: "is not a port".
func (e *Environment) Wrong(variable, format string, args ...any) {
	e.problems = append(e.problems, fmt.Errorf(e.Name(variable)+" "+format, args...))
}

// Err has a line for everything that is wrong.
func (e *Environment) Err() error { return errors.Join(e.problems...) }
