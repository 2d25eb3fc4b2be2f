package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func (h hostile) testLongBodies(t *testing.T) {
	i := h.newInstance(t, "shared-small")
	content := encode(t, i.provisionBody(nil))
	whole := func(length int) string { return content + strings.Repeat(" ", length-len(content)) }
	for _, c := range []struct{ name, more, body string }{
		{"with its length", fmt.Sprintf("Content-Length: %d\r\n\r\n", mebibyte+1), whole(mebibyte + 1)},
		{"in one chunk", "Transfer-Encoding: chunked\r\n\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", mebibyte+1,
			whole(mebibyte+1))},
		{"in many chunks", "Transfer-Encoding: chunked\r\n\r\n", strings.Repeat("400\r\n"+strings.Repeat(" ", 0x400)+
			"\r\n", 1025) + "0\r\n\r\n"},
		{"only announced", "Content-Length: 9223372036854775807\r\n\r\n", whole(mebibyte + 1)},
	} {
		status, object := h.exchange(t, h.head("PUT", i.path(), c.more)+c.body)
		if expectSentence(t, http.StatusRequestEntityTooLarge, status, object); t.Failed() {
			t.Fatal(c.name)
		}
	}
	expectEmpty(t, i.deprovision(t, now), http.StatusGone)
	i.Do(t, "PUT", i.path(), []byte(whole(mebibyte))).Expect(t, http.StatusCreated)
}

// testContents sends what a JSON body can hold. What is accepted must be kept, and all else be refused with a 400.
func (h hostile) testContents(t *testing.T) {
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
		"GUID of 900 KiB":          {more: `,"space_guid":"` + strings.Repeat("x", 900<<10) + `"`, status: 201},
		"plan of 900 KiB":          {more: `,"plan_id":"` + strings.Repeat("x", 900<<10) + `"`, status: 400},
	} {
		t.Run(name, func(t *testing.T) {
			i := h.newInstance(t, "shared-small")
			body := fmt.Sprintf(`{"service_id":%q,"organization_guid":"o"`, i.serviceID)
			if !strings.Contains(c.more, "space_guid") {
				body += `,"space_guid":"s"`
			}
			if !strings.Contains(c.more, "plan_id") {
				body += fmt.Sprintf(`,"plan_id":%q`, i.planID)
			}
			if c.context != "" {
				body += `,"context":` + c.context
			}
			if c.parameters != "" {
				body += `,"parameters":` + c.parameters
			}
			r := i.Do(t, "PUT", i.path(), []byte(body+c.more+"}"))
			if c.status != http.StatusCreated {
				expectSentence(t, c.status, r.Status, r.Body)
				if len(r.Raw) > 2000 {
					t.Errorf("the refusal has %d bytes: %.500s …", len(r.Raw), r.Raw)
				}
				return
			}
			r.Expect(t, http.StatusCreated)
			i.fetch(t).Expect(t, http.StatusOK)
		})
	}
}

func (h hostile) testIDs(t *testing.T) {
	i := h.newInstance(t, "shared-small") // for its plan alone
	for id, status := range map[string]int{
		strings.Repeat("a", 257): 400, strings.Repeat("a", 60_000): 400, strings.Repeat("%61", 15_000): 400,
		"%00": 400, "a%00": 400, "%0d%0aX-Injected:%20yes": 400, "%1b%5b31m": 400, "%7f": 400, "%ff": 400, "%c0%ae": 400,
		"%ed%a0%80": 400, "%e2%80%ae": 400, "%e2%80%8b": 400, "%2e%2e": 400, "%2e": 400, "..": 404, ".": 404, "%zz": 400,
		"..%2f..%2f..%2fetc%2fpasswd": 201, "%2Fv2%2Fcatalog": 201, "'%3B%20DROP%20TABLE%20instance%3B--": 201,
		"%25": 201, "_": 201, "*": 201, "%F0%9F%92%A9": 201, "%EF%BD%81": 201, "A": 201, strings.Repeat("z", 256): 201,
	} {
		name := fmt.Sprintf("%.40s", id)
		t.Run(name, func(t *testing.T) {
			body := encode(t, i.provisionBody(nil))
			path := "/v2/service_instances/" + id
			status1, object := h.exchange(t, h.head("PUT", path, fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)))+body)
			if status != http.StatusCreated {
				// net/http refuses a path that is none by itself, in plain text.
				if id == "%zz" && status1 == 400 {
					return
				}
				expectSentence(t, status, status1, object)
				return
			}
			if status1 != http.StatusCreated {
				t.Errorf("answer %d %v, want 201", status1, object)
			}
			conn := h.dial(t)
			setDeadline(t, conn, answerTime)
			send(t, conn, h.head("DELETE", i.deletion(path, now), "\r\n"))
			if status, object := receive(t, bufio.NewReader(conn)); status != http.StatusOK {
				t.Errorf("delete it: answer %d %v", status, object)
			}
		})
	}
	for _, target := range []string{
		"/v2/service_instances/" + strings.Repeat("a", mebibyte),
		"/v2/service_instances/i/last_operation?operation=" + strings.Repeat("a", mebibyte),
	} {
		// net/http refuses it, in plain text.
		if status, _ := h.exchange(t, h.head("GET", target, "\r\n")); status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a target of 1 MiB: answer %d, want 431", status)
		}
	}
	for _, operation := range []string{
		"", "task_", "task_-1", "task_9223372036854775808", "%F0%9F%92%A9", strings.Repeat("task_1", 5000), "task_1'--",
	} {
		status, object := h.exchange(t, h.head("GET", i.path()+"/last_operation?operation="+operation, "\r\n"))
		if status != http.StatusBadRequest && status != http.StatusNotFound && status != http.StatusGone {
			t.Errorf("operation %.40s: answer %d %v", operation, status, object)
		}
	}
}
