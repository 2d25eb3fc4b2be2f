package process

import (
	"io"
	"os"
	"strings"
)

// logTailBytes is how much of a log is read for the sake of its last lines.
const logTailBytes = 4096

// logTail returns the last lines that the server logged, for an error message.
func logTail(inst instance) string {
	f, err := os.Open(inst.logFile())
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	// A log shorter than that is read from its beginning, where the offset then still is.
	_, _ = f.Seek(-logTailBytes, io.SeekEnd)
	text, err := io.ReadAll(io.LimitReader(f, logTailBytes))
	if err != nil {
		return err.Error()
	}
	return lastLines(string(text))
}

// lastLines returns the last three lines of a program's output.
func lastLines(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}
