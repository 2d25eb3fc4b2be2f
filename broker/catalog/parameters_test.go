package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/plan"
)

const sharedSmall = "482650c1-b09b-47d4-952a-7d320c6dd4d1"

func TestInstanceParameters(t *testing.T) {
	t.Parallel()
	tests := []struct {
		raw  string
		want plan.InstanceParameters
	}{
		{"", plan.InstanceParameters{}},
		{"{}", plan.InstanceParameters{}},
		{" { } ", plan.InstanceParameters{}},
		{`{"charset":"latin1"}`, plan.InstanceParameters{Charset: "latin1"}},
		{`{"collation":"utf8mb4_bin","charset":"utf8mb4"}`,
			plan.InstanceParameters{Charset: "utf8mb4", Collation: "utf8mb4_bin"}},
		{`{"clone_from":"an-id","bootstrap":"SELECT 1"}`, plan.InstanceParameters{CloneFrom: "an-id", Bootstrap: "SELECT 1"}},
	}
	c := shipped(t)
	for _, test := range tests {
		got, err := c.InstanceParameters(sharedSmall, json.RawMessage(test.raw))
		assert.True(t, got == test.want && err == nil, "%s: got %+v, %v", test.raw, got, err)
	}
}

func TestBindingParameters(t *testing.T) {
	t.Parallel()
	tests := []struct {
		raw  string
		role plan.Role
		tls  plan.TLS
	}{
		{"", plan.ReadWrite, ""},
		{"{}", plan.ReadWrite, ""},
		{`{"role":"read-only"}`, plan.ReadOnly, ""},
		{`{"role":"read-write"}`, plan.ReadWrite, ""},
		{`{"role":"admin","tls":"required"}`, plan.Admin, plan.TLSRequired},
		{`{"tls":"optional"}`, plan.ReadWrite, plan.TLSOptional},
	}
	c := shipped(t)
	for _, test := range tests {
		got, err := c.BindingParameters(sharedSmall, json.RawMessage(test.raw))
		assert.True(t, got.Role == test.role && got.TLS == test.tls && err == nil, "%s: got %+v, %v", test.raw, got, err)
	}
}

// The requests that carry parameters, as one kind of function.
var requests = map[string]func(c *Catalog, planID string, raw json.RawMessage) error{
	"create": func(c *Catalog, planID string, raw json.RawMessage) error {
		_, err := c.InstanceParameters(planID, raw)
		return err
	},
	"update": func(c *Catalog, planID string, raw json.RawMessage) error {
		_, err := c.UpdateParameters(planID, raw)
		return err
	},
	"bind": func(c *Catalog, planID string, raw json.RawMessage) error {
		_, err := c.BindingParameters(planID, raw)
		return err
	},
}

func TestParametersRefused(t *testing.T) {
	t.Parallel()
	const object = "The parameters must be a JSON object."
	const accepts = "This plan accepts bootstrap, charset, clone_from, collation, keep_deleted_days, restore_from, " +
		"restore_to_time, undelete."
	tests := []struct {
		request, raw, want string
	}{
		{"create", `{"clone_from":"i","charset":"latin1"}`, `Parameters "clone_from" and "charset" exclude each other: a copy ` +
			`has the character set of its source.`},
		{"create", `{"clone_from":"i","collation":"latin1_bin"}`, `Parameters "clone_from" and "collation" exclude each ` +
			`other: a copy has the character set of its source.`},
		{"create", `{"bootstrap":"` + strings.Repeat("é", 32769) + `"}`, `Parameter "bootstrap" must be at most 64 KiB.`},
		{"create", `null`, object},
		{"create", `[]`, object},
		{"bind", `7`, object},
		{"update", `null`, object},
		{"create", `{`, "The parameters are not valid JSON."},
		{"create", `{} {}`, "The parameters are not valid JSON."},
		{"create", strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), "The parameters are not valid JSON."},
		{"create", `{"colour":"blue"}`, `Parameter "colour" is not known. ` + accepts},
		{"create", `{"Charset":"utf8"}`, `Parameter "Charset" is not known. ` + accepts},
		{"create", `{"charset":"a","charset":"b"}`, `Parameter "charset" is given twice.`},
		{"create", `{"charset":"a","\u0063harset":"a"}`, `Parameter "charset" is given twice.`},
		{"create", `{"` + strings.Repeat("x", 257) + `":1}`, "A parameter has a name longer than 256 bytes."},
		{"create", `{"charset":{"x":1,"x":1}}`, `Parameter "charset" must be of type string.`},
		{"create", `{"charset":1}`, `Parameter "charset" must be of type string.`},
		{"create", `{"charset":""}`, `Parameter "charset" must match the pattern "^[A-Za-z0-9_]+$".`},
		{"create", `{"charset":"utf8; DROP"}`, `Parameter "charset" must match the pattern "^[A-Za-z0-9_]+$".`},
		{"create", `{"charset":"utf8\n"}`, `Parameter "charset" must match the pattern "^[A-Za-z0-9_]+$".`},
		{"create", `{"collation":"` + strings.Repeat("x", 65) + `"}`,
			`Parameter "collation" must have at most 64 characters.`},
		{"update", `{"charset":"utf8"}`,
			`Parameter "charset" is not known. This plan accepts backup, confirm, keep_deleted_days, restore_backup.`},
		{"update", `{"keep_deleted_days":1}`, `Parameter "keep_deleted_days" must be 0: plan shared-small keeps no deleted data.`},
		{"create", `{"keep_deleted_days":-1}`, `Parameter "keep_deleted_days" must be at least 0.`},
		{"create", `{"keep_deleted_days":1e999999}`, `Parameter "keep_deleted_days" must have at most 20 digits and no exponent.`},
		{"create", `{"keep_deleted_days":123456789012345678901}`,
			`Parameter "keep_deleted_days" must have at most 20 digits and no exponent.`},
		{"create", `{"keep_deleted_days":1.5}`, `Parameter "keep_deleted_days" must be of type integer.`},
		{"create", `{"undelete":"db","clone_from":"db2"}`,
			`Parameters "undelete" and "clone_from" exclude each other: the data comes back as it was.`},
		{"create", `{"undelete":"db","charset":"utf8"}`,
			`Parameters "undelete" and "charset" exclude each other: the data comes back as it was.`},
		{"create", `{"restore_from":"b","clone_from":"i"}`,
			`Parameters "clone_from" and "restore_from" exclude each other: a service instance has one source.`},
		{"create", `{"restore_from":"b","charset":"utf8"}`, `Parameters "restore_from" and "charset" exclude each other: a ` +
			`copy has the character set of its source.`},
		{"create", `{"restore_from":"b","restore_to_time":"2026-01-01 00:00:00"}`, `Parameter "restore_to_time" must be a ` +
			`time with its zone, such as 2026-11-22T18:30:00Z or 2026-11-22T19:30:00+01:00 (RFC 3339).`},
		{"create", `{"restore_to_time":"2026-01-01T00:00:00Z"}`,
			`Parameter "restore_to_time" needs "restore_from", the service instance or the backup.`},
		{"create", `{"undelete":"db","restore_from":"b"}`,
			`Parameters "undelete" and "restore_from" exclude each other: the data comes back as it was.`},
		{"update", `{"backup":"now","keep_deleted_days":0}`,
			`Parameters "backup" and "keep_deleted_days" exclude each other: send two requests.`},
		{"update", `{"restore_backup":"b","confirm":"db","keep_deleted_days":0}`,
			`Parameters "keep_deleted_days" and "restore_backup" exclude each other: send two requests.`},
		{"update", `{"restore_backup":"b","confirm":"db","backup":"now"}`,
			`Parameters "backup" and "restore_backup" exclude each other: send two requests.`},
		{"update", `{"confirm":"db"}`, `Parameter "confirm" is only for "restore_backup".`},
		{"update", `{"backup":"later"}`, `Parameter "backup" must be one of now.`},
		{"bind", `{"role":"owner"}`, `Parameter "role" must be one of read-only, read-write, admin.`},
		{"bind", `{"role":""}`, `Parameter "role" must be one of read-only, read-write, admin.`},
		{"bind", `{"charset":"utf8"}`, `Parameter "charset" is not known. This plan accepts role, tls, ttl.`},
		{"bind", `{"tls":"none"}`, `Parameter "tls" must be one of optional, required.`},
		{"bind", `{"tls":false}`, `Parameter "tls" must be of type string.`},
	}
	c := shipped(t)
	for _, test := range tests {
		expectRefused(t, requests[test.request](c, sharedSmall, json.RawMessage(test.raw)), test.want)
	}
}

func expectRefused(t *testing.T, err error, want string) {
	assert.ErrorAs(t, err, new(*ParameterError), "instead of %s", want)
	assert.EqualError(t, err, want)
}

func TestParametersOfUnknownPlan(t *testing.T) {
	t.Parallel()
	c := shipped(t)
	for name, request := range requests {
		assert.ErrorIs(t, request(c, "none", nil), ErrUnknownPlan, name)
	}
}

// The operator's schemas decide: each of these is laxer or stricter than the ones in the repository.
func TestParametersFollowTheSchema(t *testing.T) {
	t.Parallel()
	tests := []struct {
		request, schema, raw, want string
	}{
		{"create", `properties: {charset: {}}, additionalProperties: true`, `{"x":"y"}`,
			`Parameter "x" is not known. This plan accepts charset.`},
		{"create", `properties: {charset: {}}`, `{"charset":1}`, `Parameter "charset" must be a string.`},
		{"create", `properties: {charset: {}}, required: [charset]`, ``, `Parameter "charset" is missing.`},
		{"create", `properties: {charset: {minLength: 2}}`, `{"charset":"a"}`,
			`Parameter "charset" must have at least 2 characters.`},
		{"create", `properties: {charset: {format: ipv4}}`, `{"charset":"a"}`,
			`Parameter "charset" breaks the rule "format" of the plan's schema.`},
		{"create", `properties: {charset: {$ref: "#/definitions/x"}}, definitions: {x: {enum: [a, b]}}`,
			`{"charset":"c"}`, `Parameter "charset" must be one of a, b.`},
		{"create", `minProperties: 1`, `{}`, `The parameters break the rule "minProperties" of the plan's schema.`},
		{"bind", `properties: {role: {}}`, `{"role":"owner"}`,
			`Parameter "role" must be one of read-only, read-write, admin.`},
		{"bind", `properties: {role: {enum: [read-write, admin]}}`, `{"role":"read-only"}`,
			`Parameter "role" must be one of read-write, admin.`},
		{"bind", ``, `{"role":"read-only"}`, `Parameter "role" is not accepted. This plan takes no parameters here.`},
	}
	for _, test := range tests {
		c := parse(t, withSchema(test.request, test.schema))
		expectRefused(t, requests[test.request](c, "p", json.RawMessage(test.raw)), test.want)
	}
}

func TestRoleSchemaMustAllowTheDefault(t *testing.T) {
	t.Parallel()
	checkRefusal(t, "role", withSchema("bind", "properties: {role: {enum: [read-only]}}"),
		"10: the JSON schema must allow read-write, the role of a binding that asks for none")
}

// withSchema returns a catalog with the plan p, whose only schema is for request and has the given keywords.
func withSchema(request, keywords string) string {
	holder := map[string]string{"create": "service_instance", "bind": "service_binding"}[request]
	return `services:
- id: s
  name: db
  description: A database
  bindable: true
  plans:
  - id: p
    name: small
    description: Small
    schemas: {` + holder + `: {create: {parameters: {$schema: "` + draft4 + `", type: object, ` + keywords + `}}}}
    broker: {provisioner: shared, async: never, max_storage_mb: 1, max_connections: 1}
`
}
