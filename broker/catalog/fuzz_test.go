package catalog

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Parse accepts no file halfway: it returns a catalog whose plans can be found, or problems with their lines.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "services: []", valid, "a: &a [*a]", "? x\n: y", "services:\n- id: |\n", "a: !!binary x", "- - -", "{a: [",
		replaceLine(21, "            properties: {charset: {pattern: '('}}"),
	} {
		f.Add([]byte(seed))
	}
	problem := regexp.MustCompile(`^c\.yml:[1-9][0-9]*: .`)
	f.Fuzz(func(t *testing.T, file []byte) {
		c, err := Parse("c.yml", file)
		if err != nil {
			assert.True(t, problem.MatchString(err.Error()), "a problem without its line: %v", err)
			return
		}
		_, err = json.Marshal(c.Services())
		assert.NoError(t, err, "the catalog cannot be served")
		for _, p := range c.Plans() {
			got, err := c.Plan(p.ServiceID, p.ID)
			assert.True(t, got == p && err == nil, "Plan(%q, %q) = %+v, %v", p.ServiceID, p.ID, got, err)
		}
	})
}

// Parameters are a JSON object with values that are safe in SQL, or are refused with a *ParameterError of one line.
func FuzzParameters(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "null", "[]", `{"charset":"utf8mb4","collation":"utf8mb4_bin"}`, `{"role":"admin"}`,
		`{"charset":"a","charset":"b"}`, `{"charset":{"a":[1,2.5e400,true,null]}}`, "{\"\xff\":1}", `{"\ud800":""}`,
	} {
		f.Add([]byte(seed))
	}
	c := shipped(f)
	safe := regexp.MustCompile(`^[A-Za-z0-9_]*$`)
	f.Fuzz(func(t *testing.T, raw []byte) {
		for name, request := range requests {
			err := request(c, sharedSmall, raw)
			var refusal *ParameterError
			assert.False(t, err != nil && (!errors.As(err, &refusal) || strings.Contains(err.Error(), "\n")),
				"%s: %T %v", name, err, err)
			assert.False(t, err == nil && len(raw) > 0 && json.Unmarshal(raw, &map[string]any{}) != nil,
				"%s: accepted what is no object", name)
		}
		p, err := c.InstanceParameters(sharedSmall, raw)
		assert.False(t, err == nil && !(safe.MatchString(p.Charset) && safe.MatchString(p.Collation)), "accepted %+v", p)
	})
}
