package transfer

import (
	"context"
	"database/sql"
	"regexp"
	"slices"
	"strings"
)

// lateKeys are the secondary keys of a table that is being copied. They are added when it has its rows: then the server
// sorts each key once, which takes less time than to insert row by row, and less space.
type lateKeys struct {
	table   *table
	clauses []string
	words   bool // they are those of splitWords
}

// earlyKeyBytes is how large a table can be that has its secondary keys from the beginning. That is much in a gentle
// copy, because nothing rests while keys are added. Those of even larger tables do not fit into the memory of a small
// server, which would read and write a page for each row.
func (o Options) earlyKeyBytes() uint64 {
	if o.Gentle {
		return 16 * o.ChunkBytes
	}
	return o.ChunkBytes
}

// splitCreate splits the definition of a table of the snapshot into one without its secondary keys, and these. There
// are none if the table is small, or may need them before it has rows.
func (b *builder) splitCreate(t *table) (early string, keys lateKeys) {
	if early, clauses := splitWords(t.Create); len(clauses) > 0 && !strings.Contains(b.Version, "MariaDB") {
		return early, lateKeys{t, clauses, true}
	}
	references := "REFERENCES " + t.String() + " "
	if t.Bytes <= b.options.earlyKeyBytes() || t.Sequence || t.Versioned ||
		slices.ContainsFunc(b.Tables, func(o table) bool { return strings.Contains(o.Create, references) }) {
		return t.Create, lateKeys{}
	}
	early, clauses := splitKeys(t.Create)
	return early, lateKeys{t, clauses, false}
}

// splitWords takes the FULLTEXT keys out of what SHOW CREATE TABLE printed of a table with a column FTS_DOC_ID. While a
// table has such keys, MySQL takes only ids that are greater than all before, and not too far from them.
// https://dev.mysql.com/doc/refman/9.7/en/innodb-fulltext-index.html
func splitWords(create string) (early string, keys []string) {
	text, texts := mask(create)
	var kept []string
	numbered := false
	for line := range strings.SplitSeq(text, "\n") {
		if key, found := strings.CutPrefix(line, "  FULLTEXT KEY "); found {
			keys = append(keys, "FULLTEXT KEY "+texts.restore(strings.TrimSuffix(key, ",")))
			continue
		}
		if column := columnLine.FindStringSubmatch(line); column != nil && texts.restore(column[1]) == "`FTS_DOC_ID`" {
			numbered = true
		}
		if strings.HasPrefix(line, ")") {
			kept[len(kept)-1] = strings.TrimSuffix(kept[len(kept)-1], ",")
		}
		kept = append(kept, line)
	}
	if !numbered || len(keys) == 0 {
		return create, nil
	}
	return texts.restore(strings.Join(kept, "\n")), keys
}

// Lines of what SHOW CREATE TABLE prints. A definition with any other line stays as it is, and so does one with a
// foreign key, which may need a key, or with keys whose order the server would change.
var (
	plainKey     = regexp.MustCompile("^  KEY `(?:[^`]|``)+` \\(`")
	expressions  = regexp.MustCompile(`[(,]\(`)
	uniqueKey    = regexp.MustCompile("^  (?:PRIMARY KEY|UNIQUE KEY `(?:[^`]|``)+`) \\((`(?:[^`]|``)+`)")
	columnOrRule = regexp.MustCompile("^  (?:CONSTRAINT )?`")
	counted      = regexp.MustCompile("^  (`(?:[^`]|``)+`) .* AUTO_INCREMENT\\b")
)

// splitKeys takes the secondary keys out of what SHOW CREATE TABLE printed.
func splitKeys(create string) (early string, keys []string) {
	lines := strings.Split(create, "\n")
	end := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, ")") })
	if end < 0 {
		return create, nil
	}
	var kept, first []string // first are the first columns of unique keys
	counter := ""
	for _, line := range lines[1:end] {
		line = strings.TrimSuffix(line, ",")
		unique := uniqueKey.FindStringSubmatch(line)
		switch {
		case plainKey.MatchString(line) && !expressions.MatchString(line):
			keys = append(keys, strings.TrimPrefix(line, "  "))
			continue
		case unique != nil:
			first = append(first, unique[1])
		case !columnOrRule.MatchString(line), strings.Contains(line, " FOREIGN KEY "):
			return create, nil
		}
		if found := counted.FindStringSubmatch(line); found != nil {
			counter = found[1]
		}
		kept = append(kept, line)
	}
	if len(keys) == 0 || counter != "" && !slices.Contains(first, counter) {
		return create, nil
	}
	return strings.Join(slices.Concat(lines[:1], []string{strings.Join(kept, ",\n")}, lines[end:]), "\n"), keys
}

// addKeys adds the keys for which the rows had to be there.
func (b *builder) addKeys(ctx context.Context) error {
	waiting, workers := queue(b.late), min(b.options.Workers, len(b.late))
	b.late = nil
	return atOnce(ctx, workers, func(ctx context.Context, _ int) error { return b.addKeysOf(ctx, waiting) })
}

// gentleKeys makes MySQL use one thread to add keys; MariaDB always does.
// https://dev.mysql.com/doc/refman/8.4/en/online-ddl-configure-parallel-threads.html
const gentleKeys = `SET SESSION unique_checks = @@unique_checks
	/*!80027 , innodb_ddl_threads = 1, innodb_parallel_read_threads = 1 */`

func (b *builder) addKeysOf(ctx context.Context, waiting <-chan lateKeys) error {
	conn, err := b.connect(ctx, looseSession)
	if err != nil {
		return err
	}
	defer discard(conn)
	if b.options.Gentle {
		if err := b.exec(ctx, conn, gentleKeys); err != nil {
			return err
		}
	}
	for l := range waiting {
		statements := [][]string{l.clauses}
		if l.words { // which the server adds to a table as it is only one by one
			statements = slices.Collect(slices.Chunk(l.clauses, 1))
		}
		for _, clauses := range statements {
			err := b.exec(ctx, conn, "ALTER TABLE "+l.table.String()+" ADD "+strings.Join(clauses, ", ADD "))
			if number(err) != 0 {
				return refused(err, "The keys of table %s cannot be created in the copy (MySQL error %d).", l.table.Name,
					number(err))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// keyLine matches the line of a key in what SHOW CREATE TABLE prints, with strings and names masked.
var keyLine = regexp.MustCompile(`(?m)^  KEY (\x00\d+\x00) `)

// keyNames lists the names of the keys in a definition, quoted.
func keyNames(create string) (names []string) {
	create, texts := mask(create)
	for _, found := range keyLine.FindAllStringSubmatch(create, -1) {
		names = append(names, texts.restore(found[1]))
	}
	return names
}

// dropAddedKeys drops the keys that the server has added for foreign keys. In MariaDB, unlike MySQL, a session without
// foreign_key_checks may drop the key of a foreign key.
func (b *builder) dropAddedKeys(ctx context.Context, conn *sql.Conn, t *table) error {
	if !strings.Contains(b.Version, "MariaDB") || !strings.Contains(t.Create, " FOREIGN KEY ") {
		return nil
	}
	var create string
	if err := conn.QueryRowContext(ctx, "SHOW CREATE TABLE "+t.String()).Scan(new(string), &create); err != nil {
		return err
	}
	own := keyNames(t.Create)
	for _, name := range keyNames(create) {
		if slices.Contains(own, name) {
			continue
		}
		if err := b.exec(ctx, conn, "ALTER TABLE "+t.String()+" DROP KEY "+name); err != nil {
			return err
		}
	}
	return nil
}
