package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func catalogRequiringTLS(t *testing.T, plan string) (path string) {
	t.Helper()
	return testdrive.EditedCatalog(t, testdrive.InPlan(plan, "tls: optional", "tls: required"))
}

func catalogWithEvents(t *testing.T, plan string) (path string) {
	t.Helper()
	return testdrive.EditedCatalog(t, testdrive.InPlan(plan, "max_bindings:", "events: true, max_bindings:"))
}

func catalogWithout(t *testing.T, plan string) (path string) {
	t.Helper()
	return testdrive.EditedCatalog(t, func(text string) string {
		const between = "\n      - id: "
		return strings.Join(slices.DeleteFunc(strings.Split(text, between), func(part string) bool {
			return strings.Contains(part, "name: "+plan+"\n")
		}), between)
	})
}

// How many bindings an instance of each plan of bindLimitEnvironment may have.
const (
	bindLimit      = 3 // shared-small
	bindLimitLarge = 5 // all others
)

// bindLimitEnvironment is that of brokers whose plans allow few bindings.
func bindLimitEnvironment(t *testing.T, server servers.MySQL) map[string]string {
	t.Helper()
	env := testdrive.Environment(t, server)
	env["CATALOG"] = testdrive.EditedCatalog(t, func(text string) string {
		limit := bindLimit // of the first plan
		return regexp.MustCompile(`max_bindings: \d+`).ReplaceAllStringFunc(text, func(string) string {
			defer func() { limit = bindLimitLarge }()
			return fmt.Sprintf("max_bindings: %d", limit)
		})
	})
	return env
}
