// Command with-kubernetes runs a command beside a Kubernetes control plane with one played node (see
// test/kubernetes/cluster), which has an image of every mysqld of this host, and ends both with the command. It needs
// root, and the programs of `make kubernetes-programs` in the directory that $KUBERNETES_PROGRAMS names.
//
//	sudo -E go run ./test/kubernetes/with-kubernetes kubectl get storageclasses
//
// The command finds $KUBECONFIG, an administrator's, and $KUBERNETES_NODE, the address of the node.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"mysql-broker/test/kubernetes/cluster"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: with-kubernetes COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "with-kubernetes:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(command []string) (code int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var shared cluster.Shared
	defer func() { err = errors.Join(err, shared.Close()) }()
	if err := shared.Open(os.Getenv(cluster.ProgramsVar), log.Printf); err != nil {
		return 1, err
	}
	for _, b := range cluster.Binaries() {
		log.Printf("image %s", cluster.ImageName(b))
	}
	return cluster.RunCommand(ctx, command, "KUBECONFIG="+shared.Kubeconfig, "KUBERNETES_NODE="+shared.Node.Address())
}
