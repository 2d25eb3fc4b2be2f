package process

import (
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// logTailBytes is how much of the end of a log is searched for errors.
const logTailBytes = 4096

// endLogBytes is how much of it says why a server exited. MySQL logs a line for each session that it ends then.
const endLogBytes = 64 << 10

// logTail returns the last errors that the server logged, for an error message.
func logTail(sd serverDir) string { return tellingLines(readLogTail(sd)) }

func readLogTail(sd serverDir) string { return readLogEnd(sd, logTailBytes) }

// readLogEnd returns at most that many bytes of the end of a log.
func readLogEnd(sd serverDir, limit int64) string {
	f, err := os.Open(sd.logFile())
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	// In a shorter log the seek fails, and the offset stays at the beginning.
	_, _ = f.Seek(-limit, io.SeekEnd)
	text, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// logReader reads what a server appends to its log.
type logReader struct {
	file   string
	offset int64 // -1 before the first look
}

// readNew returns what was logged since the last call, or the end of the log at the first call; at most the last
// 16*logTailBytes. A log that has become shorter was rotated, and is read from its beginning.
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
	if errors.Is(err, io.EOF) { // it was truncated in between
		err = nil
	}
	return string(text[:n]), err
}

// tellingLines returns the last three lines of a program's output that contain an error, or the last three lines if
// none does.
func tellingLines(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	harmless := func(line string) bool { return !strings.Contains(line, "ERROR") }
	if errorLines := slices.DeleteFunc(slices.Clone(lines), harmless); len(errorLines) > 0 {
		lines = errorLines
	}
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

var (
	// lastWord matches the last line that both flavours log when they shut down properly. MySQL may log another line after
	// it.
	lastWord = regexp.MustCompile(`: Shutdown complete\b.*\n(.*MySQL Server - end.*\n)?$`)

	// order matches what they log when they are asked to shut down, or when they abort their start.
	order = regexp.MustCompile(`Received SHUTDOWN from user|: Normal shutdown|\bAborting\b`)
)

// shutDown reports whether a server exited because it was asked to, judged by the end of its log.
func shutDown(log string) bool {
	orders := order.FindAllString(log, -1)
	return lastWord.MatchString(log) && len(orders) > 0 && orders[len(orders)-1] != "Aborting"
}
