package process

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/certificate"
	"mysql-broker/provisioner/launcher/mysqld"
)

// group is recorded for a server that is a group, and for each of its members. The directory of a group has no data of
// its own. Its members are servers like any other, in members/1 and so on below it. They share one key, and the
// password of mysqld.GroupUser is derived from that.
type group struct {
	Name  string `json:"name"`
	Ports []int  `json:"ports"` // of all members

	ProtocolPorts []int `json:"protocol_ports"` // of all members, on 127.0.0.1
}

func (d serverDir) membersDir() string { return filepath.Join(d.dir, "members") }

// member returns the directory of the nth member of a group, counted from 1.
func (d serverDir) member(n int) serverDir {
	return serverDir{id: d.id + "." + strconv.Itoa(n), dir: filepath.Join(d.membersDir(), strconv.Itoa(n))}
}

// isGroup reports whether the directory is that of a group.
func (d serverDir) isGroup() bool {
	_, err := os.Lstat(d.membersDir())
	return err == nil
}

// launchedID is the id of the server that was launched: for a member, that of its group.
func (d serverDir) launchedID() string {
	id, _, _ := strings.Cut(d.id, ".")
	return id
}

// members returns the directories of all members of a group that are there.
func (d serverDir) members() (all []serverDir, err error) {
	entries, err := os.ReadDir(d.membersDir())
	if errors.Is(err, fs.ErrNotExist) { // no group, or destroyed in between
		return nil, nil
	}
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, d.member(n))
		}
	}
	return all, err
}

// groupOf returns what a member of a group knows.
func (l *Launcher) groupOf(st state) mysqld.Group {
	g := st.Group
	all := mysqld.Group{Name: g.Name, Transfer: net.JoinHostPort("127.0.0.1", strconv.Itoa(st.TransferPort))}
	for n := range g.Ports {
		all.Addresses = append(all.Addresses, net.JoinHostPort(l.dialAddress(), strconv.Itoa(g.Ports[n])))
		all.Protocol = append(all.Protocol, net.JoinHostPort("127.0.0.1", strconv.Itoa(g.ProtocolPorts[n])))
	}
	return all
}

// groupPassword returns the password of mysqld.GroupUser on a member. It is not stored anywhere but in the server, and
// whoever can read the key does not need it.
func (d serverDir) groupPassword() (string, error) {
	key, err := os.ReadFile(d.keyFile())
	if err != nil {
		return "", err
	}
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte("password of " + mysqld.GroupUser))
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil // CHANGE REPLICATION SOURCE takes 32 characters
}

// copyKeys gives a member the keys and certificate of another one.
func (l *Launcher) copyKeys(from, to serverDir) error {
	files, err := os.ReadDir(from.tlsDir())
	if err != nil {
		return err
	}
	begun := to.tlsDir() + unfinished
	if err := errors.Join(os.RemoveAll(begun), os.RemoveAll(to.tlsDir()), os.Mkdir(begun, traversable)); err != nil {
		return err
	}
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(from.tlsDir(), file.Name()))
		if err != nil {
			return err
		}
		info, err := file.Info()
		if err != nil {
			return err
		}
		path := filepath.Join(begun, file.Name())
		if info.Mode().Perm() == 0o600 {
			err = l.owner.writeSecret(path, content)
		} else {
			err = writeSynced(path, content, info.Mode().Perm())
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(syncDir(begun), os.Rename(begun, to.tlsDir()))
}

// groupEndpoint returns where the members of a group listen. The members' certificates are renewed one after the other,
// so each CA that one of them trusts is needed.
func (l *Launcher) groupEndpoint(sd serverDir, st state, host string) (launcher.Endpoint, error) {
	end := launcher.Endpoint{Host: host, Port: st.Group.Ports[0]}
	for n, port := range st.Group.Ports {
		end.Members = append(end.Members, net.JoinHostPort(host, strconv.Itoa(port)))
		text, err := os.ReadFile(sd.member(n + 1).caFile())
		if errors.Is(err, fs.ErrNotExist) { // the member is being replaced
			continue
		}
		if err != nil {
			return end, fmt.Errorf("server %s: %w", sd.id, err)
		}
		all, err := certificate.Parse(text)
		if err != nil {
			return end, fmt.Errorf("server %s: %w", sd.id, err)
		}
		for _, ca := range all {
			block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})
			if !bytes.Contains(end.CACertificate, block) {
				end.CACertificate = append(end.CACertificate, block...)
			}
		}
	}
	if end.CACertificate == nil {
		return end, fmt.Errorf("server %s: no member has a certificate: %w", sd.id, fs.ErrNotExist)
	}
	return end, nil
}

// Groups implements launcher.Grouper.
func (l *Launcher) Groups(flavour, version string) error {
	v, found := launcher.Newest(l.Versions(), flavour, version)
	if !found {
		return fmt.Errorf("it has no servers of %s", launcher.Version{Flavour: flavour, Version: version})
	}
	return runsGroups(v)
}

// runsGroups returns an error if servers of a version cannot be members of a group.
func runsGroups(v launcher.Version) error {
	if v.Flavour == mysqld.MariaDB {
		if mysqld.GaleraLibrary() == "" {
			return fmt.Errorf("groups of %s need Galera, which is not installed here: install the package galera-4", v)
		}
		return nil
	}
	if v.Flavour != mysqld.MySQL || launcher.CompareVersions(v.Version, "8.4") < 0 {
		return fmt.Errorf("it runs groups of MariaDB, or of MySQL 8.4 or later, and has %s", v)
	}
	return nil
}

// retireMembers ends all members of a group for good, also those whose directories are lost. It holds their locks until
// release. The caller holds the lock of the group.
func (l *Launcher) retireMembers(ctx context.Context, sd serverDir, st state) (release func(), err error) {
	var unlocks []func()
	release = func() {
		for _, unlock := range unlocks {
			unlock()
		}
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	all, err := sd.members()
	if err != nil {
		return nil, err
	}
	if st.Group != nil {
		for n := range st.Group.Ports {
			if !slices.Contains(all, sd.member(n+1)) {
				all = append(all, sd.member(n+1))
			}
		}
	}
	for _, m := range all {
		unlock, err := lockDir(ctx, m.dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = l.stopIfRunning(ctx, m, (*server).kill)
		case err == nil:
			unlocks = append(unlocks, unlock)
			_, err = l.retire(ctx, m)
		}
		if err != nil {
			return nil, err
		}
		if err := l.groups.removeGroup(ctx, m.id); err != nil {
			l.cfg.Logger.Warn("a control group is left behind", "error", err)
		}
	}
	return release, nil
}
