package process

import (
	"fmt"
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
	for _, b := range slices.Backward(all) { // the oldest first
		if launcher.CompareVersions(b.Version, st.Version) >= 0 {
			return b, nil
		}
	}
	for _, b := range all { // of the same series, servers can go back
		if launcher.SameSeries(b.Version, st.Version) {
			return b, nil
		}
	}
	return mysqld.Binary{}, fmt.Errorf("server %s: its data is of %s %s, and the programs here are %v", sd.id, st.Flavour,
		st.Version, versionsOf(all))
}
