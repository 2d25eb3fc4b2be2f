package transfer

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestSplitKeys removes the secondary keys from definitions, unless they may be needed.
func TestSplitKeys(t *testing.T) {
	t.Parallel()
	create := func(lines ...string) string {
		return "CREATE TABLE `t` (\n  " + strings.Join(lines, ",\n  ") + "\n) ENGINE=InnoDB COMMENT='  KEY `x` (`y`)'"
	}
	id, a, primary := "`id` int NOT NULL AUTO_INCREMENT", "`a ``b` varchar(9) DEFAULT ')'", "PRIMARY KEY (`id`)"
	unique, key := "UNIQUE KEY `u` (`a ``b`)", "KEY `k ``(` (`a ``b`(3) DESC,`id`) USING BTREE COMMENT 'x'"
	check := "CONSTRAINT `c` CHECK (`id` > 0)"
	for _, test := range []struct {
		name, create, early string
		keys                []string
	}{
		{"keys at the end", create(id, a, primary, unique, key, "KEY `l` (`id`)"), create(id, a, primary, unique),
			[]string{key, "KEY `l` (`id`)"}},
		{"a check after them", create(id, a, primary, key, check), create(id, a, primary, check), []string{key}},
		{"no primary key", create("`id` int", key), create("`id` int"), []string{key}},
		{"no keys", create(id, a, primary), "", nil},
		{"the counter needs it", create(id, a, "KEY `k` (`id`)"), "", nil},
		{"a foreign key", create(id, primary, key, "CONSTRAINT `f` FOREIGN KEY (`id`) REFERENCES `t` (`id`)"), "", nil},
		{"an expression", create(id, primary, "KEY `e` ((lower(`a`)))", key), "", nil},
		{"a key for words", create(id, primary, key, "FULLTEXT KEY `w` (`a`)"), "", nil},
		{"a period", create(id, primary, key, "PERIOD FOR `p` (`a`, `b`)"), "", nil},
		{"lines in a definition", create(id, "`g` int GENERATED ALWAYS AS ('\n  x') VIRTUAL", primary, key), "", nil},
	} {
		early, keys := splitKeys(test.create)
		if test.early == "" {
			test.early = test.create
		}
		assert.True(t, early == test.early && slices.Equal(keys, test.keys), "%s: %q and %q", test.name, early, keys)
	}
}
