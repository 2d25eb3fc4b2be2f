package visible_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/visible"
)

func TestText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "",
		"Zürich, 東京 \U0001f469\u200d\U0001f52c": "Zürich, 東京 \U0001f469\u200d\U0001f52c",
		"two\nlines\tand\u00a0more":             "two\nlines\tand\u00a0more",
		"\x1b[2J\x1b]0;title\a":                 `\u001b[2J\u001b]0;title\u0007`,
		"a\rb\x00\x7f":                          `a\u000db\u0000\u007f`,
		"\u009b31m":                             `\u009b31m`,
		"\u202eevil\u2066\ufeff\u2028":          `\u202eevil\u2066\ufeff\u2028`,
		"\U000e0041":                            `\udb40\udc41`,
		"\x9b31m":                               "\ufffd31m", // no UTF-8
	} {
		assert.Equal(t, want, visible.Text(text), "%q", text)
		quoted, err := json.Marshal(text)
		require.NoError(t, err)
		var before, after string
		require.NoError(t, json.Unmarshal(quoted, &before))
		err = json.Unmarshal([]byte(visible.Text(string(quoted))), &after)
		assert.True(t, err == nil && after == before, "%s: as JSON, it becomes %q, %v", quoted, after, err)
	}
}
