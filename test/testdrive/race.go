//go:build race

package testdrive

const raceSuffix = "-race"

var raceOption = []string{"-race"}
