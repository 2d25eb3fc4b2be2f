//go:build !race

package testdrive

const raceSuffix = ""

var raceOption []string
