package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A child that names the directory nowhere, as PostgreSQL's, ends with its parent that does.
func TestRemoveEndsWhatTheCommandLeft(t *testing.T) {
	t.Parallel()
	dir, err := newTempDir()
	if err != nil {
		t.Fatal(err)
	}
	left := exec.Command("sh", "-c", "sleep 600 & echo started; wait", filepath.Join(string(dir), "server"))
	out, err := left.StdoutPipe() // closed when both have ended
	if err != nil {
		t.Fatal(err)
	}
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	printed := bufio.NewReader(out)
	if line, err := printed.ReadString('\n'); err != nil {
		t.Fatalf("read %q: %v", line, err)
	}
	if err := dir.remove(); err != nil {
		t.Error(err)
	}
	if _, err := printed.ReadByte(); err != io.EOF {
		t.Errorf("the child's output: %v", err)
	}
	_ = left.Wait() // it was killed, or ended because its child was
	if _, err := os.Stat(string(dir)); !os.IsNotExist(err) {
		t.Errorf("the directory: %v", err)
	}
}
