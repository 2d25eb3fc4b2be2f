package kubernetes

import (
	"fmt"
	"strings"

	mysqldimage "mysql-broker/deploy/mysqld-image"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/mysqladmin"
)

// What a pod sees. The data directory is below the volume, as a volume may have files of its own.
const (
	secretDir = "/secret"
	volumeDir = "/data"
	dataDir   = volumeDir + "/mysql"
	tmpDir    = volumeDir + "/tmp" // on the volume, so that the plan's disk bounds it
	runDir    = "/run/mysqld"
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
		"init-file=" + secretDir + "/" + initFile,
		"ssl-ca=" + secretDir + "/" + caFile,
		"ssl-cert=" + secretDir + "/" + certFile,
		"ssl-key=" + secretDir + "/" + keyFile,
	}
	lines = append(lines, mysqld.Settings(st.Flavour, st.MemoryMB, 0)...)
	if st.Flavour == mysqld.MariaDB {
		lines = append(lines, "secure-file-priv="+tmpDir)
	} else {
		lines = append(lines, "loose-innodb-numa-interleave=OFF") // the system call is forbidden to pods
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

// adminSQL makes the account of the administrator where there is none. An init file has one statement a line and is run
// at every start, so that it must not set a password back that was changed. It holds no password, only what the server
// keeps of it.
func adminSQL(flavour, user, password string) []byte {
	account := "'" + user + "'@'%'"
	return fmt.Appendf(nil, "CREATE USER IF NOT EXISTS %s %s;\nGRANT ALL PRIVILEGES ON *.* TO %s WITH GRANT OPTION;\n",
		account, mysqladmin.Identified(flavourNames[flavour], password), account)
}

var flavourNames = map[string]string{mysqld.MySQL: mysqladmin.MySQL, mysqld.MariaDB: mysqladmin.MariaDB}

// prepare is run by the shell of the image before mysqld starts. It makes the data directory, where there is none yet:
// a copy of the one that the image has ready, or a new one, which takes seconds. What was cut off is begun again.
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
