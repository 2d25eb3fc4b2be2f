package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// commandTexts are the manual page and the completions, by where they belong below share.
type commandTexts map[string][]byte

func (texts commandTexts) addTo(t *tree, share string) {
	for name, text := range texts {
		t.add(share+name, 0o644, text)
	}
}

// describeCommands asks the program itself.
func describeCommands(r *release, programs []*program) (commandTexts, error) {
	for _, p := range programs {
		if p.arch != runtime.GOARCH {
			continue
		}
		path := filepath.Join(r.dist, "describe")
		defer os.Remove(path)
		if err := os.WriteFile(path, p.text, 0o755); err != nil { // #nosec G306 -- it is to be run
			return nil, err
		}
		ask := func(args ...string) ([]byte, error) {
			cmd := exec.Command(path, args...)
			cmd.Env = []string{}
			out, err := cmd.Output()
			if err != nil {
				return nil, fmt.Errorf("mysql-broker %s: %w", strings.Join(args, " "), err)
			}
			return out, nil
		}
		texts := commandTexts{}
		for shell, name := range map[string]string{"bash": "bash-completion/completions/mysql-broker",
			"zsh": "zsh/site-functions/_mysql-broker", "fish": "fish/vendor_completions.d/mysql-broker.fish"} {
			text, err := ask("completion", shell)
			if err != nil {
				return nil, err
			}
			texts[name] = text
		}
		var page bytes.Buffer
		fmt.Fprintf(&page, ".TH MYSQL-BROKER 1 %s \"mysql-broker %s\"\n.SH NAME\n"+
			"mysql-broker \\- service broker for MySQL and MariaDB\n", r.time.Format("2006-01-02"), r.version)
		if err := describeCommand(&page, ask); err != nil {
			return nil, err
		}
		texts["man/man1/mysql-broker.1"] = page.Bytes()
		return texts, nil
	}
	return nil, fmt.Errorf("the manual page needs a program that runs here, on %s", runtime.GOARCH)
}

var subcommand = regexp.MustCompile(`(?m)^  ([a-z-]+) +\S`)

// describeCommand adds the help of a command and of those below it, as it is.
func describeCommand(page *bytes.Buffer, ask func(...string) ([]byte, error), name ...string) error {
	help, err := ask(append(name, "--help")...)
	if err != nil {
		return err
	}
	fmt.Fprintf(page, ".SH \"%s\"\n.nf\n", strings.ToUpper(strings.Join(append([]string{"mysql-broker"}, name...), " ")))
	for line := range strings.Lines(string(help)) {
		line = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`).Replace(line)
		if strings.HasPrefix(line, ".") {
			line = `\&` + line
		}
		page.WriteString(line)
	}
	page.WriteString(".fi\n")
	_, commands, found := strings.Cut(string(help), "\nCommands:\n")
	if !found {
		return nil
	}
	commands, _, _ = strings.Cut(commands, "\n\n")
	for _, match := range subcommand.FindAllStringSubmatch(commands, -1) {
		if match[1] == "completion" || match[1] == "help" {
			continue
		}
		if err := describeCommand(page, ask, append(name[:len(name):len(name)], match[1])...); err != nil {
			return err
		}
	}
	return nil
}
