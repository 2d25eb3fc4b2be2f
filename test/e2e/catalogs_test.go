package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// editedCatalog returns the path of a copy of the project's catalog, changed by edit.
func editedCatalog(t *testing.T, edit func(text string) string) (path string) {
	t.Helper()
	text := shipped(t, "catalog.yml")
	edited := edit(text)
	if edited == text {
		t.Fatal("the catalog is as it was")
	}
	path = filepath.Join(t.TempDir(), "catalog.yml")
	if err := os.WriteFile(path, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// inPlan edits what follows a plan's name: the first old becomes new.
func inPlan(plan, old, new string) (edit func(text string) string) {
	return func(text string) string {
		before, after, _ := strings.Cut(text, "name: "+plan+"\n")
		return before + "name: " + plan + strings.Replace("\n"+after, old, new, 1)
	}
}

func catalogRequiringTLS(t *testing.T, plan string) (path string) {
	t.Helper()
	return editedCatalog(t, inPlan(plan, "tls: optional", "tls: required"))
}

func catalogWithEvents(t *testing.T, plan string) (path string) {
	t.Helper()
	return editedCatalog(t, inPlan(plan, "max_bindings:", "events: true, max_bindings:"))
}

func catalogWithPolling(t *testing.T, plan string, seconds int) (path string) {
	t.Helper()
	return editedCatalog(t, inPlan(plan, "\n", fmt.Sprintf("\n        maximum_polling_duration: %d\n", seconds)))
}

func catalogWithout(t *testing.T, plan string) (path string) {
	t.Helper()
	return editedCatalog(t, func(text string) string {
		const between = "\n      - id: "
		return strings.Join(slices.DeleteFunc(strings.Split(text, between), func(part string) bool {
			return strings.Contains(part, "name: "+plan+"\n")
		}), between)
	})
}

// twoOfferings has a second offering, of the same plans.
func twoOfferings(t *testing.T) (path string) {
	t.Helper()
	return editedCatalog(t, func(text string) string {
		_, offering, _ := strings.Cut(text, "services:\n")
		other := regexp.MustCompile(`- id: \w{8}-\w{4}`).ReplaceAllStringFunc(offering, func(id string) string {
			return id[:len(id)-4] + "ffff"
		})
		return text + strings.Replace(other, "name: mysql\n", "name: other\n", 1)
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
	env["CATALOG"] = editedCatalog(t, func(text string) string {
		limit := bindLimit // of the first plan
		return regexp.MustCompile(`max_bindings: \d+`).ReplaceAllStringFunc(text, func(string) string {
			defer func() { limit = bindLimitLarge }()
			return fmt.Sprintf("max_bindings: %d", limit)
		})
	})
	return env
}

// How many MiB the plans of quotaEnvironment have.
const (
	quotaSmall     = 40 // shared-small, shared-async
	quotaLarge     = 80 // shared-large
	quotaDedicated = 64 // dedicated-small
)

// quotaEnvironment is that of brokers that measure every second, and whose plans are small.
func quotaEnvironment(t *testing.T, server servers.MySQL) map[string]string {
	t.Helper()
	env := testdrive.Environment(t, server)
	of := func(mebibytes int) string { return fmt.Sprintf("max_storage_mb: %d, max_connections: ", mebibytes) }
	env["CATALOG"] = editedCatalog(t, strings.NewReplacer(of(100), of(quotaSmall), of(1024)+"60", of(quotaLarge)+"60",
		of(1024)+"50", of(quotaDedicated)+"50").Replace)
	env["QUOTA_INTERVAL"] = quotaInterval.String()
	return env
}
