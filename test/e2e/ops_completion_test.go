package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// bashCompletion is where Debian and Ubuntu put what completion scripts build on.
const bashCompletion = "/usr/share/bash-completion/bash_completion"

// shell is an interactive bash on a terminal of its own.
type shell struct {
	input io.Writer
	mu    sync.Mutex
	shown bytes.Buffer
}

func (s *shell) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.Write(p)
}

func (s *shell) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.String()
}

// startBash starts one in which the broker's program is found, with its environment.
func startBash(t *testing.T, env map[string]string) *shell {
	t.Helper()
	program := testdrive.Binary(t)
	inputrc := filepath.Join(t.TempDir(), "inputrc")
	if err := os.WriteFile(inputrc, []byte("set bell-style none\nset enable-bracketed-paste off\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// TERM=dumb: nothing is drawn but what is typed.
	command := osexec.Command("script", "-qec", "bash --norc --noprofile -i", "/dev/null")
	command.Env = []string{"TERM=dumb", "PS1=ready> ", "INPUTRC=" + inputrc,
		"PATH=" + filepath.Dir(program) + ":/usr/bin:/bin"}
	for name, value := range env {
		if name != "PATH" {
			command.Env = append(command.Env, name+"="+value)
		}
	}
	s := &shell{}
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.input, command.Stdout, command.Stderr = input, s, s
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		fmt.Fprintln(input, "exit")
		input.Close()
		if err := command.Wait(); err != nil {
			t.Errorf("bash: %v", err)
		}
		if t.Failed() {
			t.Logf("the terminal:\n%s", s.text())
		}
	})
	s.await(t, "ready> ")
	return s
}

// typed types keys.
func (s *shell) typed(t *testing.T, keys string) {
	t.Helper()
	if _, err := io.WriteString(s.input, keys); err != nil {
		t.Fatal(err)
	}
}

// await waits until a text was shown, counting from what await found before, and takes all up to it away.
func (s *shell) await(t *testing.T, text string) {
	t.Helper()
	testdrive.Eventually(t, 30*time.Second, fmt.Sprintf("the terminal shows %q", text), func() bool {
		return s.shows(text)
	})
}

// shows is await without the wait.
func (s *shell) shows(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := strings.Index(s.shown.String(), text)
	if at >= 0 {
		s.shown.Next(at + len(text))
	}
	return at >= 0
}

// complete types a line over and over, each time after the one before was emptied, until it is completed: the program
// that knows how gives up where the machine is busy.
func (s *shell) complete(t *testing.T, line, completed string) {
	t.Helper()
	var typed time.Time
	testdrive.Eventually(t, 3*time.Minute, fmt.Sprintf("%q is completed to %q", line, completed), func() bool {
		if time.Since(typed) > 15*time.Second {
			s.typed(t, "\x15"+line)
			typed = time.Now()
		}
		return s.shows(completed)
	})
}

func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	server := servers.AllMySQL(t)[0]
	env := twoServers(t, server)
	p := startPlatform(t, server, env)
	i := p.provisioned(t, "shared-small", nil)
	b, _ := i.bound(t, nil)
	task := p.operator(env).ids(t, "task", "tasks", "--limit", "1")[0]

	s := startBash(t, env)
	s.typed(t, ". "+bashCompletion+" && . <(mysql-broker completion bash) && echo well\n")
	s.await(t, "well\r\n")
	for _, test := range []struct{ typed, completed string }{
		{"mysql-broker inst\t", "mysql-broker instances "},
		{"mysql-broker instances --pl\tshared-l\t", "--plan shared-large "},
		{"mysql-broker instances --state cr\te-f\t", "--state create-failed "},
		{"mysql-broker instances " + i.id[:6] + "\t", i.id + " "},
		{"mysql-broker bindings " + i.id + " " + b.bindingID[:4] + "\t", b.bindingID + " "},
		{"mysql-broker tasks retry " + task + "\t", task + " "},
		{"mysql-broker doctor --rep\t", "--repair "},
	} {
		s.complete(t, test.typed, test.completed)
	}
	s.complete(t, "mysql-broker drain ro\t", "drain roomy ")
	s.typed(t, "\n")
	s.await(t, "roomy gets no more instances.")
	for _, other := range []string{"zsh", "fish"} {
		script := testdrive.Run(t, nil, "completion", other).Expect(t, 0).Stdout
		if !strings.Contains(script, "mysql-broker") {
			t.Errorf("completion %s printed %q", other, script)
		}
	}
}
