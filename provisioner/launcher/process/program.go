package process

import (
	"fmt"
	"os"
	"regexp"
	"slices"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
)

// noProgram is what users read if there is no program for a server.
const noProgram = "The servers of this plan cannot be run here just now."

// programs are all programs, the newest first.
func (l *Launcher) programs() []mysqld.Binary {
	return append([]mysqld.Binary{l.cfg.Binary}, l.cfg.Others...)
}

// Versions implements launcher.Upgrader.
func (l *Launcher) Versions() []launcher.Version {
	var all []launcher.Version
	for _, b := range l.programs() {
		all = append(all, versionOf(b))
	}
	return all
}

func versionOf(b mysqld.Binary) launcher.Version {
	return launcher.Version{Flavour: b.Flavour, Version: b.Version}
}

// offered returns the newest program of the flavour and version of a spec.
func (l *Launcher) offered(spec launcher.Spec) (mysqld.Binary, error) {
	all := l.programs()
	i := slices.IndexFunc(all, func(b mysqld.Binary) bool { return versionOf(b).Is(spec.Flavour, spec.Version) })
	if i < 0 {
		return mysqld.Binary{}, &launcher.Error{Action: launcher.GiveUp, Sentence: noProgram,
			Err: fmt.Errorf("server %s: %s %s is wanted, and the programs here are %v", spec.ID, spec.Flavour, spec.Version,
				l.Versions())}
	}
	return all[i], nil
}

// programFor returns the program for a server's data: of the same version or, if an operator has replaced that, of the
// next one. An older program could not read the data, or would destroy them.
func (l *Launcher) programFor(sd serverDir, st state) (mysqld.Binary, error) {
	all := l.programs()
	if st.Flavour != all[0].Flavour {
		return mysqld.Binary{}, fmt.Errorf("server %s: its data are of %s, which %s cannot read", sd.id, st.Flavour,
			all[0].Path)
	}
	of := l.versionOfData(sd, st)
	for _, b := range slices.Backward(all) { // the oldest first
		if launcher.CompareVersions(b.Version, of) >= 0 {
			return b, nil
		}
	}
	for _, b := range all { // of the same series, servers can go back
		if launcher.SameSeries(b.Version, of) {
			return b, nil
		}
	}
	return mysqld.Binary{}, fmt.Errorf("server %s: its data are of %s %s, and the programs here are %v", sd.id, st.Flavour,
		of, l.Versions())
}

// versionOfData returns the version of a server's data. If it is not recorded, it is that of the last start, or "".
// Within a series it is the version of the program, which may have been replaced by a later one.
func (l *Launcher) versionOfData(sd serverDir, st state) string {
	if st.Version != "" {
		return st.Version
	}
	return startedVersion(readLogTail(sd))
}

// readyLine is what both flavours log at the end of a start.
var readyLine = regexp.MustCompile(`ready for connections\.? Version: '(\d+\.\d+\.\d+)`)

// startedVersion returns the version in the last such line of a log, or "".
func startedVersion(log string) string {
	all := readyLine.FindAllStringSubmatch(log, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1][1]
}

// removeIfThere removes a file or directory.
func removeIfThere(paths ...string) error {
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}
