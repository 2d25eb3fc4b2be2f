// Command with-node runs a command beside a Kubernetes cluster with one real node (see test/kubernetes/node), which has
// images of every mysqld of this host and of the broker, and ends it with the command. It needs the programs of
// `make kubernetes-programs` in the directory that $KUBERNETES_PROGRAMS names, the packages of
// `deploy/dev/install-packages.sh kubernetes`, and namespaces, in which with-node.sh runs it.
//
//	KUBERNETES_PROGRAMS=/opt/kubernetes-programs test/kubernetes/with-node.sh kubectl get nodes
//
// The command runs in the namespaces of the node: it reaches pods and Services by their addresses, and nothing outside.
// It finds kubectl, $KUBECONFIG, an administrator's, $KUBERNETES_DIR, by which tests use the cluster, and $MYSQLD_IMAGES,
// such as "mysql-9.7.4=official/mysql:9.7.4". $KUBELET_PID is the process of the kubelet, which the command may
// stop with SIGSTOP for a while.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/kubernetes/node"
)

// stateVar names the directory of the cluster's state. with-node.sh makes and removes it outside of the namespaces, with
// which all mounts below it end.
const stateVar = "KUBERNETES_NODE_STATE"

func main() {
	dir := os.Getenv(stateVar)
	if len(os.Args) < 2 || dir == "" {
		fmt.Fprintln(os.Stderr, "usage: test/kubernetes/with-node.sh COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	code, err := run(os.Args[1:], dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "with-node:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(command []string, dir string) (code int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	programs := os.Getenv(cluster.ProgramsVar)
	if err := os.Setenv("PATH", programs+":"+os.Getenv("PATH")); err != nil {
		return 1, err
	}
	begun := time.Now()
	archives, err := node.MakeImages(dir)
	if err != nil {
		return 1, err
	}
	log.Printf("images were made in %.1f s", time.Since(begun).Seconds())
	begun = time.Now()
	n, err := node.Start(ctx, cluster.Config{Programs: programs, Dir: dir}, archives)
	if err != nil {
		return 1, err
	}
	defer n.Stop()
	log.Printf("the cluster was ready in %.1f s", time.Since(begun).Seconds())
	if err := n.Share(node.Address); err != nil {
		return 1, err
	}
	var images []string
	for _, b := range cluster.Binaries() {
		log.Printf("images %s and %s", cluster.ImageName(b), cluster.OfficialImage(b))
		images = append(images, b.Flavour+"-"+b.Version+"="+cluster.OfficialImage(b))
	}
	code, err = runCommand(ctx, command, "KUBECONFIG="+n.Kubeconfig, cluster.DirVar+"="+dir,
		"MYSQLD_IMAGES="+strings.Join(images, " "), fmt.Sprint("KUBELET_PID=", n.Pid("kubelet")))
	if logs := os.Getenv("ARTEFACTS"); logs != "" && (code != 0 || err != nil) {
		err = errors.Join(err, os.CopyFS(filepath.Join(logs, filepath.Base(dir)), os.DirFS(filepath.Join(dir, "log"))))
	}
	return code, err
}

// runCommand runs a command with more environment variables, and returns its exit code. When the context ends, the
// command gets a SIGTERM.
func runCommand(ctx context.Context, command []string, environment ...string) (code int, err error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) // #nosec G204 -- it is what this is for
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if code := exit.ExitCode(); code > 0 {
			return code, nil
		}
	}
	return 0, err
}
