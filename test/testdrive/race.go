//go:build race

package testdrive

const raceEnabled = true
