package main

import (
	"bytes"
	"crypto/md5" // #nosec G501 -- what dpkg's md5sums are
	"encoding/hex"
	"fmt"
	"strings"
)

// What dpkg runs. The broker is not started: it has no configuration yet. Its dedicated servers outlive a restart.
const (
	postinst = `#!/bin/sh
set -e
[ "$1" = configure ] || exit 0
if command -v systemd-sysusers >/dev/null; then
  systemd-sysusers mysql-broker.conf
  systemd-tmpfiles --create mysql-broker.conf
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart mysql-broker.service
fi
`
	prerm = `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl disable --now mysql-broker.service
fi
`
)

// debian writes the package: what the README of deploy/systemd installs by hand, below /usr.
func (r *release) debian(p *program, notices []byte, texts commandTexts) error {
	var t tree
	t.add("usr/bin/mysql-broker", 0o755, p.text)
	if err := t.addOwn(r, installed, "deploy/systemd", "catalog.yml", "deploy/shared-server", "LICENSE"); err != nil {
		return err
	}
	for i, f := range t {
		if strings.HasSuffix(f.name, ".service") {
			t[i].text = bytes.ReplaceAll(f.text, []byte("/usr/local/bin/"), []byte("/usr/bin/"))
		}
		if f.name == "etc/mysql-broker/environment" {
			t[i].mode = 0o600
		}
	}
	t.add("usr/share/doc/mysql-broker/THIRD-PARTY-NOTICES", 0o644, notices)
	texts.addTo(&t, "usr/share/")

	var sums strings.Builder
	size := 0
	for _, f := range t.sorted() {
		hash := md5.Sum(f.text) // #nosec G401 -- as above
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(hash[:]), f.name)
		size += len(f.text)
	}
	var control tree
	control.add("postinst", 0o755, []byte(postinst))
	control.add("prerm", 0o755, []byte(prerm))
	control.add("md5sums", 0o644, []byte(sums.String()))
	control.add("conffiles", 0o644, []byte("/etc/mysql-broker/catalog.yml\n/etc/mysql-broker/environment\n"))
	control.add("control", 0o644, fmt.Appendf(nil, `Package: mysql-broker
Version: %s
Architecture: %s
Maintainer: The mysql-broker maintainers <maintainers@users.noreply.github.com>
Installed-Size: %d
Recommends: systemd
Suggests: mariadb-server-core, postgresql
Section: net
Priority: optional
Description: service broker for MySQL and MariaDB
 Gives databases on shared servers, and whole servers on this host, to the
 developers of Cloud Foundry and of other platforms that speak the Open Service
 Broker API. Its state is in PostgreSQL. Dedicated servers need a mysqld, such
 as that of mariadb-server-core.
`, r.debianVersion(), p.arch, size/1024))

	members := []file{{name: "debian-binary", text: []byte("2.0\n")}}
	for _, part := range []struct {
		name string
		tree
	}{{"control.tar.gz", control}, {"data.tar.gz", t}} {
		text, err := part.tree.tarGz("", r.time)
		if err != nil {
			return err
		}
		members = append(members, file{name: part.name, text: text})
	}
	return r.write("mysql-broker_"+r.debianVersion()+"_"+p.arch+".deb", ar(members, r.time.Unix()))
}

// debianVersion sorts what comes before a release before it.
func (r *release) debianVersion() string { return strings.Replace(r.version, "-", "~", 1) }

// installed is where the package has a file of the project.
func installed(name string) string {
	switch name {
	case "deploy/systemd/mysql-broker.service":
		return "usr/lib/systemd/system/mysql-broker.service"
	case "deploy/systemd/sysusers.conf":
		return "usr/lib/sysusers.d/mysql-broker.conf"
	case "deploy/systemd/tmpfiles.conf":
		return "usr/lib/tmpfiles.d/mysql-broker.conf"
	case "deploy/systemd/environment.example":
		return "etc/mysql-broker/environment"
	case "catalog.yml":
		return "etc/mysql-broker/catalog.yml"
	case "LICENSE":
		return "usr/share/doc/mysql-broker/copyright"
	}
	if own, ok := strings.CutPrefix(name, "deploy/shared-server/"); ok {
		return "usr/share/mysql-broker/shared-server/" + own
	}
	return "usr/share/doc/mysql-broker/" + strings.TrimPrefix(name, "deploy/")
}

// ar is an archive in the form of deb(5).
func ar(members []file, at int64) []byte {
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	for _, m := range members {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", m.name, at, 0, 0, 0o100644, len(m.text))
		out.Write(m.text)
		if len(m.text)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}
