//go:build faults

package fault

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// socket is where a test listens; without it, points do nothing.
var socket = os.Getenv("FAULT_SOCKET")

// ArchiveRoom is how many bytes of unarchived binary logs servers keep; 0 for as many as otherwise.
var ArchiveRoom, _ = strconv.ParseInt(os.Getenv("FAULT_ARCHIVE_ROOM"), 10, 64)

// errInjected is what a step fails with where the test says so.
var errInjected = errors.New("a test made this step fail")

// Hook is called instead of asking over the socket, by tests that run brokers in their own process. It reports whether
// the step is to fail. It is set before the first broker starts.
var Hook func(point string) (fail bool)

// LeaseHook is called with each lease that a broker has taken: the time from which its own clock counts the lease, and
// what it does when the lease expires by that clock. It is set before the first broker starts.
var LeaseHook func(since time.Time, expire func())

// Lease lets a test have a lease expire on the broker's own clock, as if the broker had been paused for long.
func Lease(since time.Time, expire func()) {
	if LeaseHook != nil {
		LeaseHook(since, expire)
	}
}

// Point tells the test which point this process has come to, and waits for its word: to go on, or to panic, which
// fails the step. The test may as well kill the process meanwhile. A test that is gone holds nobody up.
func Point(name ...string) {
	if Hook != nil {
		if Hook(strings.Join(name, ": ")) {
			panic(errInjected)
		}
		return
	}
	if socket == "" {
		return
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "%d %s\n", os.Getpid(), strings.Join(name, ": "))
	word, _ := bufio.NewReader(conn).ReadString('\n')
	if word == "fail\n" {
		panic(errInjected)
	}
}

// Statement is a point before or after an SQL statement, named by its first two words.
func Statement(when, sql string) {
	words := strings.Fields(sql)
	Point(when, strings.TrimSuffix(strings.Join(words[:min(2, len(words))], " "), ","))
}
