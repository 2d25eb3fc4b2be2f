package binlog

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var ascii = regexp.MustCompile(`^[\x00-\x7f]*$`)

// charset returns the character set of a collation, or sql.ErrNoRows.
func (r *Replay) charset(ctx context.Context, id string) (name string, err error) {
	const of = "SELECT character_set_name FROM information_schema.%s WHERE id = ?"
	err = r.rows.QueryRowContext(ctx, fmt.Sprintf(of, "collations"), id).Scan(&name)
	if errors.Is(err, sql.ErrNoRows) && !r.MySQL { // MariaDB has ids of its newer collations only there, since 10.10
		err = r.rows.QueryRowContext(ctx, fmt.Sprintf(of, "collation_character_set_applicability"), id).Scan(&name)
	}
	return name, err
}

// charsetOf returns the character set of a client, by the id of its collation; "" for UTF-8, and for bytes.
func (r *Replay) charsetOf(ctx context.Context, client uint64) (name string, err error) {
	name, err = r.charset(ctx, fmt.Sprint(client))
	if errors.Is(err, sql.ErrNoRows) || strings.HasPrefix(name, "utf8") || name == "binary" {
		return "", nil
	}
	return name, err
}

// toUTF8 returns a name of a statement in UTF-8.
func (r *Replay) toUTF8(ctx context.Context, name string, client uint64) (string, error) {
	if ascii.MatchString(name) {
		return name, nil
	}
	charset, err := r.charsetOf(ctx, client)
	if err != nil || charset == "" {
		return name, err
	}
	return r.convert(ctx, name, charset, "utf8mb4")
}

// convert returns a text in another character set. Servers accept some that are not valid in their own.
func (r *Replay) convert(ctx context.Context, text, from, to string) (string, error) {
	var converted sql.NullString
	query := fmt.Sprintf("SELECT HEX(CONVERT(CONVERT(x'%x' USING %s) USING %s))", text, from, to)
	if err := r.rows.QueryRowContext(ctx, query).Scan(&converted); err != nil {
		return "", fmt.Errorf("convert a name from %s to %s: %w", from, to, err)
	}
	if !converted.Valid {
		return "", &UnsupportedError{What: fmt.Sprintf("a text that is not valid in %s, or not possible in %s", from, to)}
	}
	raw, err := hex.DecodeString(converted.String)
	return string(raw), err
}

// characteristics matches what servers write between the parameters of a routine and its body.
var characteristics = regexp.MustCompile(`^(?: RETURNS? (?:'(?:[^'\\]|\\.|'')*'|[^'\n])*)?(?:\n    [A-Z][^\n]*)*`)

// withHeadInClient writes all of a statement in the character set of its client. Servers write the statement anew if it
// creates a routine or a view: the type that it returns, its comment and, on MySQL, its name and columns in UTF-8, all
// else as it came.
func (r *Replay) withHeadInClient(ctx context.Context, text string, q query) (string, error) {
	if ascii.MatchString(text) {
		return text, nil
	}
	charset, err := r.charsetOf(ctx, q.client)
	if err != nil || charset == "" {
		return text, err
	}
	d := definition{tokens: tokens(text, q.sqlMode, utf8mb4)}
	if !d.accept("CREATE") && !d.accept("ALTER") {
		return text, nil
	}
	alters := d.tokens[0].text == "ALTER" // of these, only views are written anew
	kind := ""
	for kind == "" && d.at < len(d.tokens) {
		switch word := d.word(d.at); word {
		case "VIEW", "PROCEDURE", "FUNCTION", "PACKAGE":
			kind = word
			if alters && word != "VIEW" {
				return text, nil
			}
		case "TABLE", "TRIGGER", "EVENT", "DATABASE", "SCHEMA", "LIBRARY", "SEQUENCE", "INDEX":
			return text, nil
		}
		d.at++
	}
	end := "AS"
	if kind == "PROCEDURE" || kind == "FUNCTION" {
		end = "("
	}
	for d.at < len(d.tokens) && d.word(d.at) != end {
		d.at++
		if kind == "PACKAGE" && d.accept("COMMENT") && d.at < len(d.tokens) {
			comment := d.tokens[d.at]
			converted, err := r.convert(ctx, text[comment.at:comment.end], "utf8mb4", charset)
			return text[:comment.at] + converted + text[comment.end:], err
		}
	}
	if d.at == len(d.tokens) {
		return text, nil
	}
	head, rest := text[:d.tokens[d.at].at], text[d.tokens[d.at].at:]
	if r.MySQL {
		head, err = r.convert(ctx, head, "utf8mb4", charset)
	}
	if err != nil || end == "AS" {
		return head + rest, err
	}
	parameters := definition{tokens: tokens(rest, q.sqlMode, q.client)}
	list := parameters.term(0)
	after := rest[list[len(list)-1].end:]
	middle := characteristics.FindString(after)
	converted, err := r.convert(ctx, middle, "utf8mb4", charset)
	return head + rest[:len(rest)-len(after)] + converted + after[len(middle):], err
}
