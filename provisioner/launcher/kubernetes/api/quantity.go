package api

import (
	"math"
	"strconv"
	"strings"
)

// Has reports whether all quantities of wanted are in r. The API server may write those of the launcher in another
// form: 1024Mi as 1Gi. Others may have added quantities: a limit range that of the processor, for example.
func (r Resources) Has(wanted Resources) bool {
	has := func(all, wanted map[string]string) bool {
		for name, quantity := range wanted {
			if all[name] != quantity && ToMilli(all[name]) != ToMilli(quantity) {
				return false
			}
		}
		return true
	}
	return has(r.Limits, wanted.Limits) && has(r.Requests, wanted.Requests)
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
