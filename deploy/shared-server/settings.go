package sharedserver

import "strings"

// Settings are the lines of the option file for a flavour, "mysql" or "mariadb", as NAME=VALUE. A server that they are
// given to is what the broker wants a shared one to be.
func Settings(flavour string) (lines []string, err error) {
	file, err := files.ReadFile(flavour + ".cnf")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(file)) {
		if line = strings.TrimSpace(line); strings.Contains(line, "=") && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines, nil
}
