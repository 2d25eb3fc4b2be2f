package transfer

import (
	"bytes"
	"context"
	"database/sql"
	"regexp"
	"slices"
	"strings"
)

// rewriteHead mends what SHOW CREATE prints before the body of a program, which has the character set and the SQL mode
// of its session. Servers print the name, the table of a trigger, the type that a function returns and the comment in
// UTF-8 always, and the type and the comment with backslashes escaped.
func (p *program) rewriteHead(ctx context.Context, conn *sql.Conn) error {
	if p.Kind == "VIEW" || p.Kind == "LIBRARY" || !p.literally() && strings.HasPrefix(p.Client, "utf8") {
		return nil
	}
	names, comment := []string{p.Name}, ""
	query := `SELECT routine_comment FROM information_schema.routines WHERE routine_schema = DATABASE() AND
		routine_type = ` + utf8Literal(p.Kind) + ` AND routine_name = `
	into := &comment
	switch p.Kind {
	case "TRIGGER":
		query = `SELECT event_object_table FROM information_schema.triggers
			WHERE trigger_schema = DATABASE() AND trigger_name = `
		names = append(names, "")
		into = &names[1]
	case "EVENT":
		query = "SELECT event_comment FROM information_schema.events WHERE event_schema = DATABASE() AND event_name = "
	}
	if err := conn.QueryRowContext(ctx, query+utf8Literal(p.Name)).Scan(into); err != nil {
		return err
	}
	for _, name := range names {
		converted, err := p.inClient(ctx, conn, name)
		if err != nil {
			return err
		}
		for _, quote := range []string{"`", `"`} {
			p.replaceFirst(quote+strings.ReplaceAll(name, quote, quote+quote)+quote,
				quote+strings.ReplaceAll(converted, quote, quote+quote)+quote)
		}
	}
	if found := p.returned(); found != nil && p.Kind == "FUNCTION" {
		kind := string(p.Text[found[2]:found[3]])
		if p.literally() {
			kind = masked.ReplaceAllStringFunc(kind, literalText)
		}
		converted, err := p.inClient(ctx, conn, kind)
		if err != nil {
			return err
		}
		p.Text = slices.Concat(p.Text[:found[2]], []byte(converted), p.Text[found[3]:])
	}
	if comment == "" {
		return nil
	}
	converted, err := p.inClient(ctx, conn, comment)
	if err != nil {
		return err
	}
	if p.literally() {
		converted = strings.ReplaceAll(converted, "'", "''")
	} else {
		converted = printed.Replace(converted)
	}
	p.replaceFirst("COMMENT '"+printed.Replace(comment)+"'", "COMMENT '"+converted+"'")
	return nil
}

// literalText writes a string of what a server has printed for the SQL mode NO_BACKSLASH_ESCAPES.
func literalText(text string) string {
	return "'" + strings.ReplaceAll(unescaped.Replace(text[1:len(text)-1]), "'", "''") + "'"
}

// printed escapes a comment as servers do.
var printed = strings.NewReplacer("\x00", `\0`, "\n", `\n`, "\r", `\r`, `\`, `\\`, "'", "''")

func (p *program) replaceFirst(old, replacement string) {
	p.Text = bytes.Replace(p.Text, []byte(old), []byte(replacement), 1)
}

// inClient returns a text in the character set of the program.
func (p *program) inClient(ctx context.Context, conn *sql.Conn, text string) (converted string, err error) {
	if ascii.MatchString(text) || strings.HasPrefix(p.Client, "utf8") || p.Client == "binary" {
		return text, nil
	}
	err = conn.QueryRowContext(ctx, "SELECT CONVERT("+utf8Literal(text)+" USING "+p.Client+")").Scan(&converted)
	return converted, err
}

var ascii = regexp.MustCompile(`^[\x00-\x7f]*$`)

func utf8Literal(text string) string { return string(appendQuoted([]byte("_utf8mb4"), []byte(text))) }
