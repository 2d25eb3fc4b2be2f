package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// servers are those that the tests of all steps share. They are started for the first step that needs them.
type servers struct {
	dir string

	mu        sync.Mutex
	err       error // why they could not be started
	variables []string
	running   *exec.Cmd
	in        io.Closer // ends them; they end with this process, too, however that ends
}

// start returns the environment of tests. Their servers are started by the first call.
func (s *servers) start(ctx context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil && s.err == nil {
		if s.err = s.launch(ctx); s.err != nil {
			s.err = fmt.Errorf("start the servers that tests share: %w", s.err)
		}
	}
	return s.variables, s.err
}

func (s *servers) launch(ctx context.Context) error {
	program := filepath.Join(s.dir, "with-servers") // go run would not pass signals on
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "./test/servers/with-servers").
		CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// The environment, an empty string, and then nothing until the input ends.
	const tell = `printenv -0; printf '\0'; exec cat`
	cmd := exec.Command(self, "cost", costs(s.dir), program, "sh", "-c", tell)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what interrupts the tests must not end their servers first
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if s.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.running = cmd
	for lines := bufio.NewReader(out); ; {
		variable, err := lines.ReadString(0)
		if err != nil {
			return err // why is on its standard error
		}
		if variable == "\x00" {
			return nil
		}
		s.variables = append(s.variables, variable[:len(variable)-1])
	}
}

// stop ends the servers, and what tests have left.
func (s *servers) stop() error {
	if s.running == nil {
		return nil
	}
	s.in.Close()
	return s.running.Wait()
}
