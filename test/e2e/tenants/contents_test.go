package tenants

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/testdrive"
)

// TestUnusualContents sends unusual JSON that can be stored. What is refused, package httpapi tests.
func TestUnusualContents(t *testing.T) {
	p, _ := testdrive.OnePlatform(t)
	keys := make([]string, 100_000)
	for i := range keys {
		keys[i] = fmt.Sprintf(`"%x":1`, i)
	}
	for name, more := range map[string]string{
		"100,000 keys in context": `"context":{` + strings.Join(keys, ",") + "}",
		"100,000 fields":          strings.Join(keys, ","),
		"large number":            `"context":{"n":-1.5e308}`,
		"duplicate in context":    `"context":{"a":1,"a":"2"}`,
		"odd characters":          `"context":{"":"\u202e\ufeff\uffff\ud83d\udca9","\\u0000":"'\";--"}`,
	} {
		t.Run(name, func(t *testing.T) {
			i := p.NewInstance(t, "shared-small")
			body := fmt.Sprintf(`{"service_id":%q,"plan_id":%q,"organization_guid":"o","space_guid":"s",%s}`, i.ServiceID, i.PlanID, more)
			i.Do(t, "PUT", i.Path(), []byte(body)).Expect(t, http.StatusCreated)
			i.Fetch(t).Expect(t, http.StatusOK)
		})
	}
}
