package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	mysqldimage "mysql-broker/deploy/mysqld-image"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/mysqladmin"
)

// Paths in a pod. The data directory is below the volume's root, which may have other files, such as lost+found.
const (
	secretDir = "/secret"
	volumeDir = "/data"
	dataDir   = volumeDir + "/mysql"
	tmpDir    = volumeDir + "/tmp" // on the volume, whose size limits it
	runDir    = "/run/mysqld"
	copyDir   = "/before" // the copy during an upgrade
)

// Files of the Secret, as the pod sees them in secretDir.
const (
	settingsFile   = "my.cnf"
	initFile       = "init.sql"
	prepareFile    = "prepare.sh"
	initialiseFile = "initialise.sh"
	caFile         = "ca.pem"
	certFile       = "server.pem"
	keyFile        = "server-key.pem"
)

// ofKey are made together.
var ofKey = []string{caFile, certFile, keyFile}

func (s *server) lacks(files ...string) bool {
	return slices.ContainsFunc(files, func(name string) bool { return len(s.secret.Data[name]) == 0 })
}

// makeFiles makes the files that are missing from a server's Secret: the key of a new server once its address is known,
// and what somebody has removed. With another key, clients also trust the former CAs, as mysqld still has the former
// certificate.
func (r *runner) makeFiles(ctx context.Context, s *server, spec launcher.Spec, host string) error {
	lacksKey := s.lacks(ofKey...)
	if host == "" || !lacksKey && !s.lacks(settingsFile, initFile, prepareFile, initialiseFile) {
		return nil
	}
	made := server{id: s.id, name: s.name, secret: api.Secret{Metadata: api.Metadata{Annotations: map[string]string{}},
		Data: map[string][]byte{caFile: s.secret.Data[caFile]}}}
	if lacksKey {
		if err := r.cfg.addKeys(ctx, &made, host); err != nil {
			return err
		}
	}
	return r.change(ctx, s, func(s *server) {
		s.addFiles(spec.AdminPassword)
		if lacksKey && s.lacks(ofKey...) { // no other broker was faster
			maps.Copy(s.secret.Data, made.secret.Data)
			maps.Copy(s.secret.Metadata.Annotations, made.secret.Metadata.Annotations)
		}
	})
}

// addFiles adds the files that are missing from a server's Secret, but those of its key.
func (s *server) addFiles(password string) {
	for name, content := range map[string][]byte{
		settingsFile: settings(s.state), initFile: adminSQL(s.state.Flavour, s.state.AdminUser, password),
		prepareFile: prepare(s.state.Flavour), initialiseFile: mysqldimage.Initialise} {
		if s.lacks(name) {
			s.secret.Data[name] = content
		}
	}
}

const port = 3306

// settings is the content of a server's option file.
func settings(st state) []byte {
	lines := []string{
		"[mysqld]",
		fmt.Sprintf("port=%d", port),
		"bind-address=*",
		"datadir=" + dataDir,
		"tmpdir=" + tmpDir,
		"socket=" + runDir + "/mysqld.sock",
		"pid-file=" + runDir + "/mysqld.pid",
		"ssl-ca=" + secretDir + "/" + caFile,
		"ssl-cert=" + secretDir + "/" + certFile,
		"ssl-key=" + secretDir + "/" + keyFile,
		// The kubelet reports the last 2 KiB of the log of a container that ended. A crash report is longer, and would hide
		// the reason for the crash.
		"skip-stack-trace",
		"init-file=" + secretDir + "/" + initFile,
	}
	lines = append(lines, mysqld.Settings(st.Flavour, st.MemoryMB, 0, st.BinaryLogs)...)
	if st.Flavour == mysqld.MariaDB {
		lines = append(lines, "secure-file-priv="+tmpDir)
	} else {
		lines = append(lines, "loose-innodb-numa-interleave=OFF") // the system call is forbidden to pods
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

// writeSettings writes the option file of the state to the Secret.
func (s *server) writeSettings() { s.secret.Data[settingsFile] = settings(s.state) }

// writeInit writes the init file of a server whose administrator has that password to the Secret.
func (s *server) writeInit(password string) {
	s.secret.Data[initFile] = adminSQL(s.state.Flavour, s.state.AdminUser, password)
}

// adminSQL returns an init file, one statement per line, that creates the administrator's account if it is missing. It
// runs at every start, so it must not reset a password that was changed. It contains the password's hash only.
func adminSQL(flavour, user, password string) []byte {
	account := "'" + user + "'@'%'"
	return fmt.Appendf(nil, "CREATE USER IF NOT EXISTS %s %s;\nGRANT ALL PRIVILEGES ON *.* TO %s WITH GRANT OPTION;\n",
		account, mysqladmin.Identified(flavourNames[flavour], password), account)
}

var flavourNames = map[string]string{mysqld.MySQL: mysqladmin.MySQL, mysqld.MariaDB: mysqladmin.MariaDB}

// prepare is a script that the image's shell runs before mysqld starts. If there is no data directory, it copies that
// of the image, or creates a new one, which takes seconds. After an interruption it starts again from the beginning.
func prepare(flavour string) []byte {
	return fmt.Appendf(nil, `set -eu
umask 027
rm -rf %[1]s
mkdir %[1]s
[ ! -d %[2]s ] || exit 0
rm -rf %[2]s.new
if [ -d %[3]s ]; then
  cp -R --sparse=always %[3]s %[2]s.new
else
  /bin/sh %[4]s %[5]s %[2]s.new %[1]s
fi
sync
mv %[2]s.new %[2]s
sync
`, tmpDir, dataDir, mysqldimage.DataDir, secretDir+"/"+initialiseFile, flavour)
}

// program is mysqld's name in the image.
var program = map[string]string{mysqld.MySQL: "mysqld", mysqld.MariaDB: "mariadbd"}

// Errors of MySQL and MariaDB for a variable that this version does not have, or that can only be set at the start.
const (
	unknownVariable  = 1193 // ER_UNKNOWN_SYSTEM_VARIABLE
	readOnlyVariable = 1238 // ER_INCORRECT_GLOBAL_LOCAL_VAR

	// ER_WRONG_USAGE: MariaDB still changes the size of its redo log, for a broker that was killed meanwhile.
	changeInProgress = 1221
)

// setGlobals sets the variables that differ between the two sizes of a resize. Variables that can only be set at the
// start keep their values until then. all is true if another resize may have set the variables. setGlobals returns
// NotYet while an earlier change of one of them is in progress.
func (r resizer) setGlobals(ctx context.Context, all bool) error {
	ctx, cancel := context.WithTimeout(ctx, setTime)
	defer cancel()
	from := []size{r.s.state.size}
	if all { // a variable that depends on the memory differs between these two
		from = append(from, size{MemoryMB: 1}, size{MemoryMB: 1 << 20})
	}
	for _, statement := range changedGlobals(r.s.state.Flavour, r.s.state.Resize.size, from...) {
		err := mysqladmin.ExecIf(ctx, adminLogin(r.s, r.spec), statement, func() error { return r.expectWork(ctx, r.s) })
		if refused, ok := errors.AsType[*mysql.MySQLError](err); ok {
			switch refused.Number {
			case unknownVariable, readOnlyVariable:
				continue
			case changeInProgress:
				return launcher.NotYet(minPoll, "Changing the server's memory")
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const setTime = 30 * time.Second // for all statements

// changedGlobals returns the statements that change a server's settings from one of several sizes to another one. The
// options maximum-… limit what sessions may set, and are not variables.
func changedGlobals(flavour string, to size, from ...size) (statements []string) {
	before := map[string]int{}
	for _, of := range from {
		for _, line := range mysqld.Settings(flavour, of.MemoryMB, 0, to.BinaryLogs) {
			before[line]++
		}
	}
	for _, line := range mysqld.Settings(flavour, to.MemoryMB, 0, to.BinaryLogs) {
		name, value, _ := strings.Cut(strings.TrimPrefix(line, "loose-"), "=")
		if before[line] == len(from) || strings.HasPrefix(name, "maximum-") {
			continue
		}
		if number, ok := strings.CutSuffix(value, "M"); ok {
			if n, err := strconv.Atoi(number); err == nil {
				value = strconv.Itoa(n << 20)
			}
		}
		statements = append(statements, fmt.Sprintf("SET GLOBAL %s = %s", strings.ReplaceAll(name, "-", "_"), value))
	}
	return statements
}
