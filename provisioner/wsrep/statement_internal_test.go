package wsrep

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMaybeDDL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"ALTER TABLE t ADD c int":                      true,
		" \n/* SELECT */ drop table t":                 true,
		"/*!50000 ALTER */ TABLE t ADD c int":          true,
		"/*M!100000 ALTER */ TABLE t ADD c int":        true,
		"SET STATEMENT max_statement_time=0 FOR DROP":  true,
		"-- INSERT\nTRUNCATE t":                        true,
		"/* a comment without an end":                  true,
		"":                                             true,
		"INSERT INTO t VALUES (1)":                     false,
		"select`a`from`t`":                             false,
		"((SELECT 1))":                                 false,
		"/* ALTER */ # DROP\n-- x\nupdate t SET n = 1": false,
		"do":                            false,
		"CHECKSUM TABLE t":              false,
		"COMMIT":                        false,
		"/*a*//*b*/(SELECT 1)":          false,
		"SELECTED":                      true,
		"WITH a AS (SELECT 1) DELETE …": false,
	} {
		assert.Equal(t, want, maybeDDL(text), "maybeDDL(%q) =", text)
	}
}
