// Command mkimage makes an image for dedicated servers without Docker, from a mysqld that is installed on this host. It
// needs root. The archive can be loaded with `ctr image import`, `docker load` or `podman load`.
//
//	go run ./deploy/mysqld-image/mkimage mariadb /usr/sbin/mariadbd /usr registry.example.com/mariadb:10.11 mariadb.tar
package main

import (
	"fmt"
	"os"

	"mysql-broker/deploy/mysqld-image/dockerarchive"
)

func main() {
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "usage: mkimage mysql|mariadb PROGRAM BASE-DIRECTORY IMAGE ARCHIVE")
		os.Exit(2)
	}
	m := dockerarchive.Mysqld{Flavour: os.Args[1], Program: os.Args[2], BaseDir: os.Args[3]}
	if err := dockerarchive.WriteMysqld(os.Args[5], m, os.Args[4], os.Args[4]+"-plain"); err != nil {
		fmt.Fprintln(os.Stderr, "mkimage:", err)
		os.Exit(1)
	}
}
