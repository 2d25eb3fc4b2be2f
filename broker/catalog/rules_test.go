package catalog

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// valid is a catalog to break, one line at a time.
const valid = `services:
- id: s
  name: db
  description: A database
  bindable: true
  tags: [sql]
  metadata: {displayName: DB, shareable: true}
  plans:
  - id: p
    name: small
    description: Small
    metadata: {bullets: [one], costs: [{amount: {eur: 1.5}, unit: MONTHLY}]}
    maintenance_info: {version: 1.0.0, description: First}
    maximum_polling_duration: 60
    schemas:
      service_instance:
        create:
          parameters:
            $schema: http://json-schema.org/draft-04/schema#
            type: object
            properties: {charset: {type: string}}
        update: {parameters: {$schema: http://json-schema.org/draft-04/schema#, type: object}}
      service_binding: {create: {parameters: {$schema: http://json-schema.org/draft-04/schema#, type: object}}}
    broker: {provisioner: shared, async: never, max_storage_mb: 1, max_connections: 1}
  - id: q
    name: own
    description: Own
    broker:
      provisioner: dedicated
      async: required
      memory_mb: 192
      max_storage_mb: 1
      max_connections: 1
`

// replaceLine replaces a line of valid, counted from 1, by text, which may have several lines or none.
func replaceLine(line int, text string) string {
	lines := strings.Split(valid, "\n")
	return strings.Join(slices.Replace(lines, line-1, line, text), "\n")
}

// sharedWith is the broker key of a shared plan with one key more.
func sharedWith(key string) string {
	return "    broker: {provisioner: shared, async: never, max_storage_mb: 1, max_connections: 1, " + key + "}"
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const draft6 = "http://json-schema.org/draft-06/schema#"
	readable := filepath.Join(t.TempDir(), "schema.json") // and a schema: only the rule refuses it
	require.NoError(t, os.WriteFile(readable, []byte(`{"type": "string"}`), 0o600))
	file := "file://" + readable
	const noMembers = `"members" of broker must be left out: the broker runs no clusters; list one that ` +
		`somebody else runs in MYSQL_SERVERS, with exclusive: true if it is for one instance (docs/ha.md)`
	tests := []struct {
		name string
		line int
		with string
		want string // every line of the error, without the file's name
	}{
		{"missing id", 2, "- name: x", `2: the service offering has no "id"
3: the key "name" is already on line 2`},
		{"blank id", 2, `- id: " "`, `2: "id" of the service offering must be a string that is not blank`},
		{"id not a string", 2, `- id: 12`, `2: "id" of the service offering must be a string that is not blank`},
		{"blank name", 3, `  name: ""`, `3: "name" of the service offering must be a string that is not blank`},
		{"null description", 4, `  description:`,
			`4: "description" of the service offering must be a string that is not blank`},
		{"long description", 4, `  description: ` + strings.Repeat("é", 10_001),
			`4: "description" of the service offering must be at most 10000 characters`},
		{"bindable missing", 5, ``, `2: the service offering has no "bindable"`},
		{"bindable not a bool", 5, `  bindable: "true"`, `5: "bindable" of the service offering must be true or false`},
		{"plan_updateable not a bool", 5, "  bindable: true\n  plan_updateable: 1",
			`6: "plan_updateable" of the service offering must be true or false`},
		{"bindings_retrievable null", 5, "  bindable: true\n  bindings_retrievable: ~",
			`6: "bindings_retrievable" of the service offering must be true or false`},
		{"null tags", 6, `  tags: ~`, `6: "tags" of the service offering must be a list of strings`},
		{"number among tags", 6, `  tags: [a, 1]`, `6: "tags" of the service offering must be a list of strings`},
		{"long tags", 6, `  tags: [` + strings.Repeat("t", 2_000) + ", " + strings.Repeat("u", 49) + `]`,
			`6: "tags" of the service offering must be at most 2048 characters together`},
		{"null requires", 6, `  requires:`, `6: "requires" must be left out: a database has no use for syslog_drain, ` +
			`route_forwarding or volume_mount`},
		{"syslog drain", 6, `  requires: [syslog_drain]`, `6: "requires" must be left out: a database has no use for ` +
			`syslog_drain, route_forwarding or volume_mount`},
		{"dashboard", 6, `  dashboard_client: {id: x}`,
			`6: "dashboard_client" must be left out: its secret has no place in a file; set DASHBOARD_CLIENT_ID and ` +
				`DASHBOARD_CLIENT_SECRET`},
		{"metadata not an object", 7, `  metadata: x`, `7: "metadata" of the service offering must be an object`},
		{"metadata of the wrong type", 7, `  metadata: {shareable: 1}`,
			`7: "shareable" in the metadata of the service offering holds a JSON number where true or false belongs`},
		{"metadata of the wrong type, below", 7, "  metadata:\n    displayName: DB\n    longDescription: [x]",
			`9: "longDescription" in the metadata of the service offering holds a JSON array where a string belongs`},
		{"cost not a number", 12, `    metadata: {costs: [{amount: {eur: much}}]}`,
			`12: "costs.amount" in the metadata of the plan holds a JSON string where a number belongs`},
		{"metadata without JSON", 7, `  metadata: {x: .nan}`, `7: Nan has no place in a catalog`},
		{"unknown key of offering", 6, `  colour: blue`, `6: "colour" is not a key of the service offering; its keys are ` +
			`bindable, bindings_retrievable, description, id, instances_retrievable, metadata, name, ` +
			`plan_updateable, plans, tags`},

		{"missing plan id", 9, "  -", `10: the plan has no "id"`},
		{"repeated plan id", 25, "  - id: p", `25: "id" of the plan repeats the one on line 9`},
		{"repeated plan name", 26, "    name: small", `26: "name" of the plan repeats the one on line 10`},
		{"blank plan description", 11, `    description: "  "`,
			`11: "description" of the plan must be a string that is not blank`},
		{"free not a bool", 11, "    description: x\n    free: maybe", `12: "free" of the plan must be true or false`},
		{"bullets not a list", 12, `    metadata: {bullets: one}`,
			`12: "bullets" in the metadata of the plan holds a JSON string where a list belongs`},
		{"bullets of numbers", 12, `    metadata: {bullets: [1]}`,
			`12: "bullets" in the metadata of the plan holds a JSON number where a string belongs`},
		{"maintenance without version", 13, `    maintenance_info: {description: x}`,
			`13: maintenance_info has no "version"`},
		{"maintenance version", 13, `    maintenance_info: {version: v1.0}`,
			`13: "version" of maintenance_info must be a semantic version such as 1.0.0`},
		{"maintenance version with zero", 13, `    maintenance_info: {version: 1.02.0}`,
			`13: "version" of maintenance_info must be a semantic version such as 1.0.0`},
		{"long maintenance", 13, `    maintenance_info: {version: 1.0.0, description: ` + strings.Repeat("x", 2_000) + `}`,
			`13: "maintenance_info" of the plan must be at most 2000 characters of JSON`},
		{"unknown key of maintenance", 13, `    maintenance_info: {version: 1.0.0, public: {}}`,
			`13: "public" is not a key of maintenance_info; its keys are description, version`},
		{"polling not a number", 14, `    maximum_polling_duration: "60"`,
			`14: "maximum_polling_duration" of the plan must be a whole number above 0`},
		{"polling for nothing", 14, `    maximum_polling_duration: 0`,
			`14: "maximum_polling_duration" of the plan must be a whole number above 0`},
		{"unknown key of plan", 14, `    colour: blue`, `14: "colour" is not a key of the plan; its keys are ` +
			`bindable, binding_rotatable, broker, description, free, id, maintenance_info, maximum_polling_duration, ` +
			`metadata, name, plan_updateable, schemas`},

		{"other draft", 19, `            $schema: ` + draft6,
			`19: "$schema" of the JSON schema must be one of ` + draft4 + `, ` + strings.TrimSuffix(draft4, "#")},
		{"no draft", 19, ``, `20: the JSON schema has no "$schema"`},
		{"schema of no object", 20, `            type: string`, `20: "type" of the JSON schema must be one of object`},
		{"not draft-04", 21, `            properties: {charset: {type: 1}}`,
			`19: the JSON schema is not valid draft-04 at /properties/charset/type`},
		{"external reference", 21, `            properties: {charset: {$ref: "http://example.com/x"}}`,
			`19: the JSON schema refers to http://example.com/x: external references are refused`},
		{"reference to a file", 21, `            properties: {charset: {$ref: "` + file + `"}}`,
			`19: the JSON schema refers to ` + file + `: external references are refused`},
		{"reference to nothing", 21, `            properties: {charset: {$ref: "#/definitions/x"}}`,
			`19: the JSON schema cannot be used: json-pointer in "catalog:schema#/definitions/x" not found`},
		{"pattern that does not compile", 21, `            properties: {charset: {pattern: "("}}`,
			`19: the JSON schema is not valid draft-04 at /properties/charset/pattern`},
		{"large schema", 21, `            description: ` + strings.Repeat("x", 64<<10),
			`19: the JSON schema must be at most 64 KiB of JSON`},
		{"parameter unknown to the broker", 21, "            properties:\n              colour: {type: string}",
			`22: "colour" is not a parameter that the broker understands here`},
		{"no parameters in schema", 22, `        update: {}`, `22: update has no "parameters"`},
		{"unknown key of schemas", 23, `      service_key: {}`,
			`23: "service_key" is not a key of schemas; its keys are service_binding, service_instance`},

		{"no broker key", 24, ``, `9: the plan has no "broker"`},
		{"broker key not an object", 24, `    broker: shared`, `24: "broker" of the plan must be an object`},
		{"unknown provisioner", 24, `    broker: {provisioner: cloud, async: never, max_storage_mb: 1, max_connections: 1}`,
			`24: "provisioner" of broker must be one of shared, dedicated`},
		{"unknown async", 24, `    broker: {provisioner: shared, async: often, max_storage_mb: 1, max_connections: 1}`,
			`24: "async" of broker must be one of never, preferred, required`},
		{"no limits", 24, `    broker: {provisioner: shared, async: never}`,
			"24: broker has no \"max_connections\"\n24: broker has no \"max_storage_mb\""},
		{"limits of zero and less", 24,
			`    broker: {provisioner: shared, async: never, max_storage_mb: 0, max_connections: -1}`,
			"24: \"max_connections\" of broker must be a whole number above 0\n" +
				"24: \"max_storage_mb\" of broker must be a whole number above 0"},
		{"no binding at all", 24, sharedWith("max_bindings: 0"),
			`24: "max_bindings" of broker must be a whole number above 0`},
		{"shared plan with memory", 24, sharedWith("memory_mb: 1"),
			`24: "memory_mb" of broker must be left out: a shared plan has no memory of its own`},
		{"shared plan with a launcher", 24, sharedWith("launcher: process"),
			`24: "launcher" of broker must be left out: shared servers run already`},
		{"shared plan with a version", 24, sharedWith("version: \"11.8\""),
			`24: "version" of broker must be left out: shared servers run already`},
		{"version that is none", 31, "      memory_mb: 192\n      version: latest",
			`32: "version" of broker must be the version of a server such as 11.8 or 11.8.9, in quotes`},
		{"shared plan with archived binary logs", 24, sharedWith("archive_binary_logs: true"),
			`24: "archive_binary_logs" of broker must be left out: shared servers have the binary logs of all tenants together`},
		{"archived binary logs without backups", 31, "      memory_mb: 192\n      archive_binary_logs: true",
			`32: "archive_binary_logs" of broker must be beside backup_every_hours: a restore begins with a backup`},
		{"shared plan with a node of its own", 24, sharedWith("node: own"),
			`24: "node" of broker must be left out: shared servers run already`},
		{"neither own nor any node", 31, "      memory_mb: 192\n      node: mine",
			`32: "node" of broker must be one of own, any`},
		{"no processor", 31, "      memory_mb: 192\n      milli_cpu: 0",
			`32: "milli_cpu" of broker must be a whole number above 0`},
		{"odd storage class", 31, "      memory_mb: 192\n      storage_class: Fast_SSD",
			`32: "storage_class" of broker must be the name of a storage class: lower-case letters, digits, dashes and dots`},
		{"odd tolerations", 31, "      memory_mb: 192\n      tolerations:\n      - {operator: Exists, value: x}\n" +
			"      - {key: a b, effect: Never}\n      - {key: a, taint: b}",
			`33: "value" of the toleration must be left out: the operator is Exists
34: "effect" of the toleration must be one of NoSchedule, PreferNoSchedule, NoExecute
34: "key" of the toleration must be the key of a taint, such as example.com/mysql
35: "taint" is not a key of the toleration; its keys are effect, key, operator, value`},
		{"odd labels", 31, "      memory_mb: 192\n      labels:\n        team: data and more\n        a/b/c: x\n" +
			"        app.kubernetes.io/name: x\n      annotations: {n: 1}",
			`33: "team" of labels must be up to 63 letters, digits, dashes, underscores and dots
34: "a/b/c" of labels must be a key such as team or example.com/team
35: "app.kubernetes.io/name" of labels must be left out: keys of app.kubernetes.io are reserved
36: "n" of annotations must be a string`},
		{"launcher without a name", 31, "      memory_mb: 192\n      launcher: ' '",
			`32: "launcher" of broker must be a string that is not blank`},
		{"dedicated and not async", 30, `      async: preferred`,
			`30: "async" of broker must be required: a dedicated server takes longer to start than a platform waits`},
		{"dedicated without memory", 31, ``, `29: broker has no "memory_mb"`},
		{"dedicated with too little memory", 31, `      memory_mb: 191`, `31: "memory_mb" of broker must be at least 192`},
		{"shared plan with members", 24, sharedWith("members: 1"), `24: ` + noMembers},
		{"dedicated plan with members", 31, "      memory_mb: 512\n      members: 3", `32: ` + noMembers},
		{"unknown key of broker", 33, "      max_connections: 1\n      cpu: 1", `34: "cpu" is not a key of broker; ` +
			`its keys are allow_cross_space, annotations, archive_binary_logs, async, backup_every_hours, backup_keep_days, ` +
			`events, exclusive, flavour, keep_deleted_days, labels, launcher, limits, max_binding_ttl, max_bindings, ` +
			`max_connections, max_storage_mb, ` +
			`memory_mb, milli_cpu, node, provisioner, shared_role, storage_class, tls, tolerations, verify, version`},
		{"unknown verification", 33, "      max_connections: 1\n      verify: never",
			`34: "verify" of broker must be one of now, later`},
		{"unknown TLS", 33, "      max_connections: 1\n      tls: never", `34: "tls" of broker must be one of optional, required`},
		{"number out of range", 33, "      max_connections: 18446744073709551615",
			"33: \"max_connections\" of broker must be a whole number above 0\n33: the number is out of range"},
	}
	for _, test := range tests {
		checkRefusal(t, test.name, replaceLine(test.line, test.with), test.want)
	}
}

func TestParseRefusesFiles(t *testing.T) {
	t.Parallel()
	const oneDocument = "1: the file must hold one YAML document"
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for name := 'b'; name < 'h'; name++ {
		previous := string(name - 1)
		bomb += string(name) + ": &" + string(name) + " [" + strings.Repeat("*"+previous+",", 10) + "]\n"
	}
	tests := []struct {
		name, file, want string
	}{
		{"empty", "", oneDocument},
		{"two documents", "services: []\n---\nservices: []\n", oneDocument},
		{"a list", "- services\n", "1: the catalog must be an object"},
		{"syntax", "services:\n- id: [\n", "2: the YAML cannot be read: sequence end token ']' not found"},
		{"no services", "{}\n", `1: the catalog has no "services"`},
		{"services null", "services:\n", `1: "services" of the catalog must be a list with at least one item`},
		{"services empty", "services: []\n", `1: "services" of the catalog must be a list with at least one item`},
		{"service no object", "services:\n- mysql\n", "2: the service offering must be an object"},
		{"unknown key", valid + "colour: blue\n", `34: "colour" is not a key of the catalog; its keys are limits, services`},
		{"repeated key", valid + "services: []\n", `34: the key "services" is already on line 1`},
		{"merge key", valid + "<<: {}\n", "34: keys must be strings; merge keys are not followed"},
		{"alias to nothing", replaceLine(13, "    maintenance_info: *gone"),
			`13: "maintenance_info" of the plan must be an object
13: the alias "gone" has no anchor above it`},
		{"alias to itself", replaceLine(13, "    maintenance_info: &x {version: *x}"),
			`13: "version" of maintenance_info must be a string that is not blank
13: the alias "x" has no anchor above it`},
		{"tag", replaceLine(3, "  name: !!str db"),
			`3: "name" of the service offering must be a string that is not blank
3: Tag has no place in a catalog`},
		{"offerings alike", valid + strings.TrimPrefix(valid, "services:\n"),
			`34: "id" of the service offering repeats the one on line 2
35: "name" of the service offering repeats the one on line 3
41: "id" of the plan repeats the one on line 9
57: "id" of the plan repeats the one on line 25`},
		// Mistakes are reported in the order of the file, and one in a value with aliases once.
		{"a value with an alias", strings.NewReplacer("name: db\n", "name: 1\n", "{version: 1.0.0, description: First}",
			"&info {version: one}", "description: Own\n", "description: Own\n    maintenance_info: *info\n").Replace(valid),
			`3: "name" of the service offering must be a string that is not blank
13: "version" of maintenance_info must be a semantic version such as 1.0.0`},
		{"alias bomb", bomb, "1: the catalog has more than 100000 values, aliases followed"},
	}
	for _, test := range tests {
		checkRefusal(t, test.name, test.file, test.want)
	}
}

func checkRefusal(t *testing.T, name, file, want string) {
	_, err := Parse("c.yml", []byte(file))
	require.Error(t, err, "%s: accepted; want\n%s", name, want)
	assert.Equal(t, want, strings.ReplaceAll("\n"+err.Error(), "\nc.yml:", "\n")[1:], name)
}
