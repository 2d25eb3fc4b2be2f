//go:build faults

package stage

import (
	"bytes"
	"os"
	"regexp"
	"runtime"
	"sync"
	"testing"
	"time"

	"mysql-broker/provisioner/fault"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Each broker's goroutines carry its name as a label, which they inherit from the one that started it. So a fault point
// knows whose it is, although brokers share the process.
const label = "broker"

// actors are the brokers that have been started, by name.
var actors sync.Map

func TestMain(m *testing.M) {
	// Only then do stack traces show labels. https://pkg.go.dev/runtime#hdr-Environment_Variables
	os.Setenv("GODEBUG", "tracebacklabels=1")
	fault.Hook = func(point string) (fail bool) {
		b, found := actors.Load(caller())
		return found && b.(*broker).come(point) == testdrive.Fail
	}
	fault.LeaseHook = func(since time.Time, expire func()) {
		if b, found := actors.Load(caller()); found {
			b.(*broker).lease(since, expire)
		}
	}
	servers.Main(m)
}

var labelled = regexp.MustCompile(`labels:\{"` + label + `": "([^"]*)"\}`)

// caller is the label of the goroutine that calls it.
func caller() string {
	var trace [256]byte
	first, _, _ := bytes.Cut(trace[:runtime.Stack(trace[:], false)], []byte("\n"))
	if found := labelled.FindSubmatch(first); found != nil {
		return string(found[1])
	}
	return ""
}
