package api

import (
	"maps"
	"math"
	"strconv"
	"strings"
)

// Equal compares quantities. The API server may write those of the launcher in another form: 1024Mi as 1Gi.
func Equal(a, b Resources) bool {
	same := func(a, b string) bool { return a == b || ToMilli(a) == ToMilli(b) }
	return maps.EqualFunc(a.Limits, b.Limits, same) && maps.EqualFunc(a.Requests, b.Requests, same)
}

// ToMilli parses a quantity; it returns -1 for one with an exponent, or that is too large.
// https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
func ToMilli(quantity string) int64 {
	unit := int64(1000)
	for suffix, size := range units {
		if number, ok := strings.CutSuffix(quantity, suffix); ok {
			quantity, unit = number, size
			break
		}
	}
	n, err := strconv.ParseInt(quantity, 10, 64)
	if err != nil || n > math.MaxInt64/unit {
		return -1
	}
	return n * unit
}

// units maps each suffix to its thousandths. No suffix is the end of another one.
var units = map[string]int64{"m": 1, "k": 1e6, "M": 1e9, "G": 1e12, "T": 1e15, "P": 1e18,
	"Ki": 1000 << 10, "Mi": 1000 << 20, "Gi": 1000 << 30, "Ti": 1000 << 40, "Pi": 1000 << 50}
