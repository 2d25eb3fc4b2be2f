package cluster

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// RunCommand runs a command with more environment variables, and returns its exit code. When the context ends, the
// command gets a SIGTERM.
func RunCommand(ctx context.Context, command []string, environment ...string) (code int, err error) {
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
