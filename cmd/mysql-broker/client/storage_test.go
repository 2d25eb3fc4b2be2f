package client

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestStorage(t *testing.T) {
	t.Parallel()
	u := newCaller(t, startEndpoint(t))
	u.ok("create-service", "db/async", "full")
	contains(t, u.ok("service", "full"), "storage:", "1.5 of 2 MiB (75 %), over quota", "delete data")
	var shown struct {
		Name    string
		Storage struct {
			Bytes int64 `json:"storage_bytes"`
		}
	}
	if err := json.Unmarshal([]byte(u.ok("service", "full", "--json")), &shown); err != nil || shown.Name != "full" ||
		shown.Storage.Bytes != 3<<19 {
		t.Errorf("%+v, %v", shown, err)
	}
	u.ok("create-service", "sync", "plain")
	if out := u.ok("service", "plain") + u.ok("service", "plain", "--json"); strings.Contains(out, "storage") {
		t.Errorf("of an instance that the broker tells nothing of: %s", out)
	}
}
