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
func (c Config) programs() []mysqld.Binary {
	return append([]mysqld.Binary{c.Binary}, c.Others...)
}

// Versions implements launcher.Upgrader.
func (l *Launcher) Versions() []launcher.Version {
	return versionsOf(l.run.cfg.programs())
}

func versionsOf(programs []mysqld.Binary) (all []launcher.Version) {
	for _, b := range programs {
		all = append(all, versionOf(b))
	}
	return all
}

func versionOf(b mysqld.Binary) launcher.Version {
	return launcher.Version{Flavour: b.Flavour, Version: b.Version}
}

// offered returns the newest program of the flavour and version of a spec.
func (c Config) offered(spec launcher.Spec) (mysqld.Binary, error) {
	all := c.programs()
	i := slices.IndexFunc(all, func(b mysqld.Binary) bool { return versionOf(b).Is(spec.Flavour, spec.Version) })
	if i < 0 {
		return mysqld.Binary{}, &launcher.Error{Action: launcher.GiveUp, Sentence: noProgram,
			Err: fmt.Errorf("server %s: %s %s is wanted, and the programs here are %v", spec.ID, spec.Flavour, spec.Version,
				versionsOf(all))}
	}
	return all[i], nil
}

// programFor returns the program for a server's data: of the same version or, if an operator has replaced that, of the
// next one. An older program could not read the data, or would destroy them.
func (r *runner) programFor(sd serverDir, st state) (mysqld.Binary, error) {
	all := r.cfg.programs()
	if st.Flavour != all[0].Flavour {
		return mysqld.Binary{}, fmt.Errorf("server %s: its data is of %s, which %s cannot read", sd.id, st.Flavour,
			all[0].Path)
	}
	of := r.versionOfData(sd, st)
	if oldest := all[len(all)-1]; of == "" && !launcher.SameSeries(oldest.Version, all[0].Version) {
		return mysqld.Binary{}, fmt.Errorf("server %s: the version of its data is not known, and the programs here are %v: "+
			"offer only those of the series that it last ran with, until it runs", sd.id, versionsOf(all))
	}
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
	return mysqld.Binary{}, fmt.Errorf("server %s: its data is of %s %s, and the programs here are %v", sd.id, st.Flavour,
		of, versionsOf(all))
}

// versionOfData returns the version of a server's data. If it is not recorded, it is that of the running server or of
// the last start, or "". Within a series it is the version of the program, which may have been replaced by a later one.
func (r *runner) versionOfData(sd serverDir, st state) string {
	if st.Version != "" {
		return st.Version
	}
	if version := r.runningVersion(sd); version != "" {
		return version
	}
	if all := readyLine.FindAllStringSubmatch(readLogEnd(sd, versionLogBytes), -1); len(all) > 0 {
		return all[len(all)-1][1]
	}
	return ""
}

// runningVersion returns the version of the program that a server runs, or "" if it does not run, or if the program was
// replaced since. The program is not asked: a tenant may have taken over the process.
func (r *runner) runningVersion(sd serverDir) string {
	s, err := searchProcesses(sd, r.owner)
	if s == nil || err != nil { // then the log says it
		return ""
	}
	defer s.close()
	runs, err := os.Stat(fmt.Sprintf("/proc/%d/exe", s.pid))
	if err != nil {
		return ""
	}
	for _, b := range r.cfg.programs() {
		if info, err := os.Stat(b.Path); err == nil && os.SameFile(info, runs) {
			return b.Version
		}
	}
	return ""
}

// recordVersion records the version of the data of a server that runs, if an earlier broker has not. The caller holds
// its lock.
func (r *runner) recordVersion(sd serverDir, st state) {
	if st.Version != "" || st.Phase != phaseReady {
		return
	}
	if st.Version = r.versionOfData(sd, st); st.Version == "" {
		r.cfg.Logger.Warn("the version of a server's data is not known", "server", sd.id)
		return
	}
	if err := sd.saveState(st); err != nil { // it is tried again when the server is looked for next
		r.cfg.Logger.Warn("could not record the version of a server's data", "server", sd.id, "error", err)
	}
}

// versionLogBytes is how much of the end of a log is searched for the last start. Servers log little between starts.
const versionLogBytes = 1 << 20

// readyLine is what both flavours log at the end of a start: MySQL in one line, MariaDB in two.
var readyLine = regexp.MustCompile(`ready for connections\.?\s+Version: '(\d+\.\d+\.\d+)`)
