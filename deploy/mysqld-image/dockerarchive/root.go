package dockerarchive

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// MakeRoot makes a root file system of programs of this host, given by name or path, with the libraries that they load.
func MakeRoot(root string, programs ...string) error {
	for _, dir := range []string{"usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "etc", "run", "var", "proc", "dev",
		"tmp"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} { // as Debian has them
		if err := os.Symlink("usr/"+dir, filepath.Join(root, dir)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	const users = "root:x:0:0::/:/bin/sh\nmysql:x:999:999::/:/bin/sh\n"
	if err := errors.Join(os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky),
		os.WriteFile(filepath.Join(root, "etc/passwd"), []byte(users), 0o644),
		os.WriteFile(filepath.Join(root, "etc/group"), []byte("root:x:0:\nmysql:x:999:\n"), 0o644),
		os.WriteFile(filepath.Join(root, "etc/hosts"), []byte("127.0.0.1 localhost\n"), 0o644)); err != nil {
		return err
	}
	for _, program := range programs {
		if err := addProgram(root, program); err != nil {
			return err
		}
	}
	return nil
}

func addProgram(root, program string) error {
	path, err := exec.LookPath(program)
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if err := CopyTree(root, real); err != nil {
		return err
	}
	if path != real {
		name := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(real, name); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return addLibraries(root, real)
}

var libraryPath = regexp.MustCompile(`/\S+`)

// addLibraries copies what the dynamic linker loads for a program, by the names that it looks for.
func addLibraries(root, program string) error {
	out, err := exec.Command("ldd", program).CombinedOutput()
	if err != nil {
		if strings.Contains(string(out), "not a dynamic executable") { // a script, or linked statically
			return nil
		}
		return fmt.Errorf("ldd %s: %w: %s", program, err, out)
	}
	for _, library := range libraryPath.FindAllString(string(out), -1) {
		real, err := filepath.EvalSymlinks(library)
		if err != nil {
			return err
		}
		to := filepath.Join(root, library)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if _, err := os.Stat(to); err == nil {
			continue
		}
		if err := run("cp", "--preserve=mode", real, to); err != nil {
			return err
		}
	}
	return nil
}

// CopyTree copies a file or directory of this host to the same place below root. A directory may be there in part.
func CopyTree(root, path string) error {
	to := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return run("cp", "-aT", "--reflink=auto", path, to)
}

func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
