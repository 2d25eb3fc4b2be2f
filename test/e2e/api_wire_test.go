package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

var wireScenarios = []scenario{
	{"catalog", testCatalog},
	{"identity of a request", testRequestIdentity},
}

func testCatalog(t *testing.T, p platform) {
	r := p.Do(t, "GET", "/v2/catalog", nil).Expect(t, http.StatusOK)
	services := r.Body["services"].([]any)
	if len(services) != 1 {
		t.Fatalf("%d service offerings instead of 1", len(services))
	}
	offering := services[0].(map[string]any)
	for _, flag := range []string{"bindable", "plan_updateable", "instances_retrievable", "bindings_retrievable"} {
		if offering[flag] != true {
			t.Errorf("%s is %v", flag, offering[flag])
		}
	}
	var names []string
	for _, item := range offering["plans"].([]any) {
		plan := item.(map[string]any)
		names = append(names, plan["name"].(string))
		checkPlanAsShown(t, plan)
	}
	want := []string{"shared-small", "shared-large", "shared-async", "dedicated-small", "dedicated-large"}
	if !slices.Equal(names, want) {
		t.Errorf("plans %q instead of %q", names, want)
	}
}

func checkPlanAsShown(t *testing.T, plan map[string]any) {
	t.Helper()
	if _, shown := plan["broker"]; shown {
		t.Errorf("plan %s shows how it is made", plan["name"])
	}
	if field(plan, "maintenance_info", "version") == nil {
		t.Errorf("plan %s has no maintenance_info", plan["name"])
	}
	for path, parameters := range map[string][]string{
		"service_instance.create": {"charset", "collation"},
		"service_instance.update": nil,
		"service_binding.create":  {"role"},
	} {
		steps := append([]string{"schemas"}, strings.Split(path, ".")...)
		schema, _ := field(plan, append(steps, "parameters")...).(map[string]any)
		if schema["$schema"] == nil || schema["additionalProperties"] != false {
			t.Errorf("plan %s: schema %s is incomplete: %v", plan["name"], path, schema)
		}
		for _, parameter := range parameters {
			if field(schema, "properties", parameter, "type") != "string" {
				t.Errorf("plan %s: schema %s lacks parameter %s", plan["name"], path, parameter)
			}
		}
	}
}

// field walks down objects, to nil where there is nothing.
func field(object map[string]any, names ...string) any {
	var value any = object
	for _, name := range names {
		inner, _ := value.(map[string]any)
		value = inner[name]
	}
	return value
}

func testRequestIdentity(t *testing.T, p platform) {
	const id = "e26cee84-6b38-4456-b34e-d1a9f002c956"
	r := p.DoWith(t, "GET", "/v2/catalog", nil, map[string]string{"X-Broker-API-Request-Identity": id})
	if got := r.Expect(t, http.StatusOK).Header.Get("X-Broker-API-Request-Identity"); got != id {
		t.Errorf("the answer has the identity %q", got)
	}
	p.AwaitLog(t, `"request_id":"`+id+`"`)
}
