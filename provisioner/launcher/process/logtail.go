package process

import (
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// logTailBytes is how much of a log is read for its last errors.
const logTailBytes = 4096

// logTail returns the last errors that the server logged, for an error message.
func logTail(sd serverDir) string { return tellingLines(readLogTail(sd)) }

func readLogTail(sd serverDir) string {
	f, err := os.Open(sd.logFile())
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
	return string(text)
}

// logReader reads what a server logs from some moment on.
type logReader struct {
	file   string
	offset int64 // -1 before the first look
}

// readNew returns what was logged since the last call, of which the last logTailBytes*16 at most, and at the first call
// what the log ends with. A log that is shorter than it was has been rotated, and is read from its beginning.
func (r *logReader) readNew() (string, error) {
	f, err := os.Open(r.file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	size := info.Size()
	if size == r.offset {
		return "", nil
	}
	from := max(0, r.offset, size-16*logTailBytes)
	if size < r.offset {
		from = max(0, size-16*logTailBytes)
	}
	text := make([]byte, size-from)
	n, err := f.ReadAt(text, from)
	r.offset = from + int64(n)
	if errors.Is(err, io.EOF) { // it was cut meanwhile
		err = nil
	}
	return string(text[:n]), err
}

// tellingLines returns the last three lines of a program's output that speak of an error, or of all if none does.
func tellingLines(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	harmless := func(line string) bool { return !strings.Contains(line, "ERROR") }
	if errorLines := slices.DeleteFunc(slices.Clone(lines), harmless); len(errorLines) > 0 {
		lines = errorLines
	}
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

var (
	// lastWord is what both flavours log last where they have ended in order. A line of MySQL's own may follow.
	lastWord = regexp.MustCompile(`: Shutdown complete\b.*\n(.*MySQL Server - end.*\n)?$`)

	// order is what they log when they are told to end, or when they give up as they start.
	order = regexp.MustCompile(`Received SHUTDOWN from user|: Normal shutdown|\bAborting\b`)
)

// shutDown says whether a server that ended had been told to, by the end of its log.
func shutDown(log string) bool {
	orders := order.FindAllString(log, -1)
	return lastWord.MatchString(log) && len(orders) > 0 && orders[len(orders)-1] != "Aborting"
}
