package transfer

import (
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
)

// Only tables with expressions have a row for which one fails. Others can have a geometry that is damaged.
func TestRefusedRows(t *testing.T) {
	t.Parallel()
	const plain = "CREATE TABLE `t` (\n  `a` geometry DEFAULT NULL COMMENT 'CHECK (a) GENERATED ALWAYS AS ((1))'\n) ENGINE=InnoDB"
	const other = "Table t has a row that the copy's server does not take (MySQL error 1416)."
	const failed = "Table t has a row for which a generated column or a check fails in the copy (MySQL error 1416)."
	for create, want := range map[string]string{
		plain: other,
		"CREATE TABLE `t` (\n  `a` int,\n  `b` int GENERATED ALWAYS AS (`a` + 1) VIRTUAL\n)":       failed,
		"CREATE TABLE `t` (\n  `a` int,\n  CONSTRAINT `c` CHECK ((`a` > 1))\n)":                    failed,
		"CREATE TABLE `t` (\n  `a` longtext CHECK (json_valid(`a`))\n)":                            failed,
		"CREATE TABLE `t` (\n  `a` int,\n  KEY `k` ((`a` + 1))\n)":                                 failed,
		"CREATE TABLE `t` (\n  `a` int\n)\n PARTITION BY HASH (`a`)\nPARTITIONS 2":                 failed,
		"CREATE TABLE `t` (\n  `a` int\n)\n/*!50100 PARTITION BY HASH (`a`)\nPARTITIONS 2 */ -- `": failed,
	} {
		err := (&table{Name: "t", Create: create}).refusedRow(&mysql.MySQLError{Number: 1416})
		assert.ErrorContains(t, err, want, create)
	}
}
