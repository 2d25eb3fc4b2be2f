package app

import (
	"cmp"
	"os"
	"os/user"

	"mysql-broker/store"
)

// Operator is the user who runs this process: the one before sudo, if there is one.
func Operator() store.Actor {
	a := store.Actor{Platform: store.ByOperator, Name: os.Getenv("SUDO_USER")}
	if u, err := user.Current(); err == nil {
		a.UserID, a.Name = u.Uid, cmp.Or(a.Name, u.Username)
	}
	a.Host, _ = os.Hostname() // an entry without the host is better than none
	return a
}
