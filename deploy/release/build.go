package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// program is the broker, compiled for one architecture.
type program struct {
	arch    string
	text    []byte
	goTool  string // the version of Go that compiled it
	modules []module
}

// module is a module that is linked into the broker.
type module struct {
	path, version string
	dir           string   // in the module cache
	packages      []string // directories of the packages that are used
}

// build compiles the broker for an architecture. Nothing of the machine or of the folder gets into it.
func (r *release) build(arch string) (*program, error) {
	path := filepath.Join(r.dist, "mysql-broker-"+arch)
	defer os.Remove(path)
	const version = "mysql-broker/cmd/mysql-broker/version."
	if _, err := r.goTool(arch, "build", "-ldflags", "-s -w -buildid= -X "+version+"Version="+r.version+
		" -X "+version+"Commit="+r.commit, "-o", path, "./cmd/mysql-broker"); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	tool, err := r.goTool(arch, "env", "GOVERSION")
	if err != nil {
		return nil, err
	}
	p := &program{arch: arch, text: text, goTool: strings.TrimSpace(tool)}
	p.modules, err = r.modules(arch)
	return p, err
}

// modules lists what the broker is linked from, sorted by path. The standard library comes first.
func (r *release) modules(arch string) ([]module, error) {
	goroot, err := r.goTool(arch, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	goversion, err := r.goTool(arch, "env", "GOVERSION")
	if err != nil {
		return nil, err
	}
	const format = "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}"
	out, err := r.goTool(arch, "list", "-deps", "-f", format, "./cmd/mysql-broker")
	if err != nil {
		return nil, err
	}
	byPath := map[string]*module{}
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 4 {
			continue
		}
		m := byPath[fields[0]]
		if m == nil {
			m = &module{path: fields[0], version: fields[1], dir: fields[2]}
			byPath[m.path] = m
		}
		m.packages = append(m.packages, fields[3])
	}
	root := strings.TrimSpace(goroot)
	all := []module{{path: "std", version: strings.TrimSpace(goversion), dir: root, packages: []string{root}}}
	for _, m := range byPath {
		all = append(all, *m)
	}
	slices.SortFunc(all[1:], func(a, b module) int { return cmp.Compare(a.path, b.path) })
	return all, nil
}

// goTool runs go for an architecture and its oldest processors, without network. No setting of the machine counts.
func (r *release) goTool(arch string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=0",
		"GOFLAGS=-trimpath -buildvcs=false -mod=readonly", "GOPROXY=off", "GOTOOLCHAIN=local",
		"GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s for %s: %w", args[0], arch, err)
	}
	return string(out), nil
}
