package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/testdrive"
)

// testContents sends unusual JSON. Accepted values can be stored; all others are refused with 400.
func testContents(t *testing.T, h testdrive.Hostile) {
	keys := make([]string, 100_000)
	for i := range keys {
		keys[i] = fmt.Sprintf(`"%x":1`, i)
	}
	deep := strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000)
	for name, c := range map[string]struct {
		context, parameters, more string
		status                    int
	}{
		"deep context":             {context: deep, status: 400},
		"deep parameters":          {parameters: deep, status: 400},
		"100,000 keys in context":  {context: "{" + strings.Join(keys, ",") + "}", status: 201},
		"100,000 parameters":       {parameters: "{" + strings.Join(keys, ",") + "}", status: 400},
		"100,000 fields":           {more: "," + strings.Join(keys, ","), status: 201},
		"huge number, a parameter": {parameters: `{"charset":1e400000}`, status: 400},
		"large number":             {context: `{"n":-1.5e308}`, status: 201},
		"NUL in context":           {context: `{"a":"x\u0000y"}`, status: 400},
		"NUL in parameters":        {parameters: `{"charset":"\u0000"}`, status: 400},
		"duplicate in context":     {context: `{"a":1,"a":"2"}`, status: 201},
		"duplicate parameter":      {parameters: `{"charset":"utf8mb4","charset":"latin1"}`, status: 400},
		"odd characters":           {context: `{"":"\u202e\ufeff\uffff\ud83d\udca9","\\u0000":"'\";--"}`, status: 201},
		"GUID of 900 KiB":          {more: `,"space_guid":"` + strings.Repeat("x", 900<<10) + `"`, status: 400},
		"plan of 900 KiB":          {more: `,"plan_id":"` + strings.Repeat("x", 900<<10) + `"`, status: 400},
	} {
		t.Run(name, func(t *testing.T) {
			i := h.NewInstance(t, "shared-small")
			body := fmt.Sprintf(`{"service_id":%q,"organization_guid":"o"`, i.ServiceID)
			if !strings.Contains(c.more, "space_guid") {
				body += `,"space_guid":"s"`
			}
			if !strings.Contains(c.more, "plan_id") {
				body += fmt.Sprintf(`,"plan_id":%q`, i.PlanID)
			}
			if c.context != "" {
				body += `,"context":` + c.context
			}
			if c.parameters != "" {
				body += `,"parameters":` + c.parameters
			}
			r := i.Do(t, "PUT", i.Path(), []byte(body+c.more+"}"))
			if c.status != http.StatusCreated {
				testdrive.ExpectSentence(t, c.status, r.Status, r.Body)
				if len(r.Raw) > 2000 {
					t.Errorf("the refusal has %d bytes: %.500s …", len(r.Raw), r.Raw)
				}
				return
			}
			r.Expect(t, http.StatusCreated)
			i.Fetch(t).Expect(t, http.StatusOK)
		})
	}
}

func testTargets(t *testing.T, h testdrive.Hostile) {
	i := h.NewInstance(t, "shared-small") // for its plan alone
	for _, target := range []string{
		"/v2/service_instances/" + strings.Repeat("a", testdrive.Mebibyte),
		"/v2/service_instances/i/last_operation?operation=" + strings.Repeat("a", testdrive.Mebibyte),
	} {
		// net/http refuses it, in plain text.
		if status, _ := h.Exchange(t, h.Head("GET", target, "\r\n")); status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a target of 1 MiB: answer %d, want 431", status)
		}
	}
	for _, operation := range []string{
		"", "task_", "task_-1", "task_9223372036854775808", "%F0%9F%92%A9", strings.Repeat("task_1", 5000), "task_1'--",
	} {
		status, object := h.Exchange(t, h.Head("GET", i.Path()+"/last_operation?operation="+operation, "\r\n"))
		if status != http.StatusBadRequest && status != http.StatusNotFound && status != http.StatusGone {
			t.Errorf("operation %.40s: answer %d %v", operation, status, object)
		}
	}
}
