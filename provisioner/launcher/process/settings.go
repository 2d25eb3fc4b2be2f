package process

import (
	"fmt"
	"strings"

	"mysql-broker/provisioner/launcher/mysqld"
)

const socketName = "mysqld.sock"

// settings returns the content of a server's settings file. It holds no secret.
func (l *Launcher) settings(sd serverDir, st state, b mysqld.Binary) []byte {
	lines := []string{
		"# Written when the server starts; changes are lost.",
		"[mysqld]",
		fmt.Sprintf("port=%d", st.Port),
		"bind-address=" + l.cfg.BindAddress,
		"basedir=" + mysqld.Quote(b.BaseDir),
		"datadir=" + mysqld.Quote(sd.dataDir()),
		"tmpdir=" + mysqld.Quote(sd.tmpDir()),
		"ssl-ca=" + mysqld.Quote(sd.caFile()),
		"ssl-cert=" + mysqld.Quote(sd.certificateFile()),
		"ssl-key=" + mysqld.Quote(sd.keyFile()),
	}
	// The socket is in the data directory, so that its path cannot exceed the 107 bytes of a socket address.
	lines = append(lines, "socket="+socketName, "pid-file=mysqld.pid")
	lines = append(lines, mysqld.Settings(b.Flavour, st.MemoryMB, st.RedoMB, st.BinaryLogs)...)
	if b.Flavour == mysqld.MariaDB {
		lines = append(lines, "secure-file-priv="+mysqld.Quote(sd.tmpDir()))
	} else {
		lines = append(lines, rsaSettings(sd)...)
	}
	lines = append(lines, l.cfg.Settings...)
	return []byte(strings.Join(lines, "\n") + "\n")
}
