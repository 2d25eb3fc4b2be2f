package main

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
)

// The broker also stops in good order when the terminal closes, and goes on under nohup.
func TestHangup(t *testing.T) {
	if slices.Contains(stops(), os.Signal(syscall.SIGHUP)) == signal.Ignored(syscall.SIGHUP) {
		t.Errorf("%v end the broker", stops())
	}
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	if len(stops()) != 2 {
		t.Errorf("%v end a broker under nohup", stops())
	}
}
