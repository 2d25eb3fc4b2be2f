package transfer

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
)

// Parts of a column's line in what SHOW CREATE TABLE prints, with strings and names masked.
var (
	membersOf = regexp.MustCompile(`^  (\x00\d+\x00) (enum|set)\(([\x00\d,]*)\)`)
	defaultOf = regexp.MustCompile(`^  (\x00\d+\x00) .*? DEFAULT (\x00\d+\x00)`)
)

// lostText is a string that SHOW CREATE TABLE may have printed otherwise than it is.
type lostText struct {
	mark, column string
	value        string // what makes a row have it: a number, or DEFAULT
}

// mendTexts writes strings in hexadecimal that a server prints with question marks: members of ENUM and SET, and on
// MariaDB defaults, with characters that its own utf8mb3 does not have, such as emoji and unassigned ones of Big5. A
// temporary table has them as they are; conn is of an account that may create it.
func (t *table) mendTexts(ctx context.Context, conn *sql.Conn) (err error) {
	create, texts := mask(t.Create)
	lost, columns := texts.lost(create)
	if len(lost) == 0 {
		return nil
	}
	const scratch = "`broker_texts`"
	if _, err := conn.ExecContext(ctx, "CREATE TEMPORARY TABLE "+scratch+" AS SELECT "+strings.Join(columns, ", ")+
		" FROM "+t.String()+" LIMIT 0"); err != nil {
		return err
	}
	for _, l := range lost {
		var text []byte
		for _, statement := range []string{"DELETE FROM " + scratch,
			"INSERT INTO " + scratch + " (" + l.column + ") VALUES (" + l.value + ")"} {
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		if err := conn.QueryRowContext(ctx, "SELECT CAST("+l.column+" AS BINARY) FROM "+scratch).Scan(&text); err != nil {
			return err
		}
		texts[index(l.mark)] = fmt.Sprintf(" x'%x'", text)
	}
	t.Create = texts.restore(create)
	_, err = conn.ExecContext(ctx, "DROP TEMPORARY TABLE "+scratch)
	return err
}

// lost lists the strings with question marks, and their columns.
func (texts maskedTexts) lost(create string) (all []lostText, columns []string) {
	for _, line := range strings.Split(create, "\n") {
		before := len(all)
		column := ""
		if found := membersOf.FindStringSubmatch(line); found != nil {
			column = texts.restore(found[1])
			for n, mark := range strings.Split(found[3], ",") {
				value := uint64(n) + 1
				if found[2] == "set" {
					value = 1 << n
				}
				if strings.Contains(texts.restore(mark), "?") {
					all = append(all, lostText{mark, column, fmt.Sprint(value)})
				}
			}
		}
		if found := defaultOf.FindStringSubmatch(line); found != nil && strings.Contains(texts.restore(found[2]), "?") {
			column = texts.restore(found[1])
			all = append(all, lostText{found[2], column, "DEFAULT"})
		}
		if len(all) > before {
			columns = append(columns, column)
		}
	}
	return all, columns
}
