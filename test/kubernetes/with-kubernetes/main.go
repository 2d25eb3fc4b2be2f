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
	"os/exec"
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
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) // #nosec G204 -- it is what this is for
	cmd.Env = append(os.Environ(), "KUBECONFIG="+shared.Kubeconfig, "KUBERNETES_NODE="+shared.Node.Address())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}
