// Package launchers lists the kinds of launchers, and configures those that an operator has chosen.
package launchers

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/provisioner/launcher/process"
)

// Kinds returns all kinds. A new kind is added here, and nowhere else.
func Kinds() []launcher.Kind {
	return []launcher.Kind{process.Kind(), kubernetes.Kind()}
}

// Variables returns the variables of all kinds. Each meaning starts with the name of the kind.
func Variables() (all []launcher.Variable) {
	for _, kind := range Kinds() {
		for _, v := range kind.Variables {
			v.Meaning = kind.Name + ": " + v.Meaning
			all = append(all, v)
		}
	}
	return all
}

// Named is a launcher that an operator has configured.
type Named struct {
	Name, Kind string
	launcher.Configured
}

// validName limits the length, because the name becomes part of variables' names; see launcher.NewEnvironment.
var validName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// Configure parses chosen, the value of LAUNCHER, and reads the variables of each launcher in it. chosen is "none" or a
// comma-separated list of entries, each KIND or NAME=KIND. The error has one line per mistake.
func Configure(chosen string, getenv func(string) string) ([]Named, error) {
	if chosen == "none" {
		return nil, nil
	}
	entries := strings.Split(chosen, ",")
	var all []Named
	var errs []error
	for _, entry := range entries {
		n, kind, err := parse(strings.TrimSpace(entry))
		if err == nil && slices.ContainsFunc(all, func(other Named) bool { return other.Name == n.Name }) {
			err = fmt.Errorf("LAUNCHER has two launchers %q", n.Name)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		owner := n.Name
		if len(entries) == 1 {
			owner = ""
		}
		env := launcher.NewEnvironment(kind, owner, getenv)
		n.Configured = kind.Configure(env)
		for _, other := range all {
			if err := n.Beside(other.Configured); err != nil && env.Err() == nil {
				errs = append(errs, fmt.Errorf("the launchers %s and %s cannot be used side by side: %w", other.Name, n.Name, err))
			}
		}
		errs = append(errs, env.Err())
		all = append(all, n)
	}
	if len(entries) > 1 {
		errs = append(errs, unread(getenv))
	}
	return all, errors.Join(errs...)
}

// parse reads an entry of LAUNCHER.
func parse(entry string) (Named, launcher.Kind, error) {
	name, of, named := strings.Cut(entry, "=")
	if !named {
		of = name
	}
	i := slices.IndexFunc(Kinds(), func(k launcher.Kind) bool { return k.Name == of })
	switch {
	case i < 0:
		return Named{}, launcher.Kind{}, fmt.Errorf("LAUNCHER is not one of none, %s, or a list of NAME=KIND with these "+
			"kinds, joined by commas: there is no kind %q", strings.Join(names(), ", "), of)
	case !validName.MatchString(name):
		return Named{}, launcher.Kind{}, fmt.Errorf("LAUNCHER has the name %q: want up to 32 lower-case letters, digits and "+
			"dashes, of which the first is a letter", name)
	}
	kind := Kinds()[i]
	return Named{Name: name, Kind: kind.Name}, kind, nil
}

// names returns the names of all kinds.
func names() (all []string) {
	for _, kind := range Kinds() {
		all = append(all, kind.Name)
	}
	return all
}

// unread returns an error for variables that are only read if the broker has a single launcher. It is called if there
// are several.
func unread(getenv func(string) string) error {
	var errs []error
	for _, v := range Variables() {
		if getenv(v.Name) != "" {
			errs = append(errs, fmt.Errorf("%s has no effect where LAUNCHER lists several: the name of a launcher comes after "+
				"LAUNCHER_, as in LAUNCHER_ZONE_1_%s for zone-1", v.Name, strings.TrimPrefix(v.Name, "LAUNCHER_")))
		}
	}
	return errors.Join(errs...)
}

// OpenHere opens a launcher on this host, for programs that start servers for themselves. variables are the environment
// variables that differ from their defaults.
func OpenHere(variables map[string]string, o launcher.Options) (launcher.Stopper, error) {
	all, err := Configure(Here, func(name string) string { return variables[name] })
	if err != nil {
		return nil, err
	}
	l, err := all[0].Open(o)
	if err != nil {
		return nil, err
	}
	here, ok := l.(launcher.Stopper)
	if !ok {
		l.Close()
		return nil, fmt.Errorf("the servers of the launcher %s cannot be stopped", Here)
	}
	return here, nil
}

// Here is the kind that needs nothing but this host.
const Here = "process"
