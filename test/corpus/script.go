package corpus

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// script reads the statements of a file in the language of mysqltest, as far as a tenant may run them: without its
// conditions, of which it takes both branches, and loops, which it runs once.
// https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_MYSQL_TEST_RUN.html
type script struct {
	root       string // of the suites
	delimiter  string
	variables  map[string]string
	statements []string
}

// deepest is how many files may include each other.
const deepest = 4

// Words that begin what is no statement of SQL. Blocks end with a line EOF.
var (
	commands = strings.Fields(`append_file assert cat_file change_user character_set chmod connect connection copy_file
		copy_files_wildcard dec die diff_files dirty_close disable_abort_on_error disable_async_client disable_connect_log
		disable_info disable_metadata disable_parsing disable_prepare_warnings disable_ps_protocol disable_query_log
		disable_reconnect disable_result_log disable_testcase disable_warnings disconnect echo enable_abort_on_error
		enable_async_client enable_connect_log enable_info enable_metadata enable_parsing enable_prepare_warnings
		enable_ps_protocol enable_query_log enable_reconnect enable_result_log enable_testcase enable_warnings end error
		exec exec_in_background execw exit expr file_exists force-cpdir force-rmdir horizontal_results inc let list_files
		list_files_append_file list_files_write_file lowercase_result mkdir move_file output partially_sorted_result perl
		ping query_attributes query_get_value query_horizontal query_vertical real_sleep reap remove_file
		remove_files_wildcard replace_column replace_numeric_round replace_regex replace_result reset_connection result_format
		rmdir save_master_pos send send_eval send_quit send_shutdown shutdown_server skip sleep sorted_result source
		start_timer sync_slave_with_master sync_with_master system vertical_results wait_for_slave_to_stop write_file`)
	blocks  = regexp.MustCompile(`^(?:--)?\s*(?:perl|write_file|append_file)\b`)
	control = regexp.MustCompile(`^(?:(?:if|while)\s*\([^{\n]*\n?\s*)?[{}]`)
	// unexpanded are files that only prepare servers or wait for something.
	unexpanded = regexp.MustCompile(`(?:^|/)(?:have|not|big|wait|check|restart|kill|force|shutdown|start|stop|reset|count|sync|` +
		`rpl|master|save|assert|show|mysqld|is_|elide|write_|diff|expect|gtid)\w*[-.]|rpl/|group_replication|galera`)
	variable = regexp.MustCompile(`\$\w+`)
)

// read appends the statements of a file.
func (s *script) read(path string, depth int) {
	raw, err := os.ReadFile(path)
	if err != nil || depth > deepest {
		return // files that a test makes, or that are not packaged
	}
	own := s.delimiter
	s.delimiter = ";"
	for text := string(raw); ; {
		text = strings.TrimLeft(text, " \t\r\n")
		line, rest, _ := strings.Cut(text, "\n")
		switch {
		case text == "":
			s.delimiter = own
			return
		case text[0] == '#':
			text = rest
		case blocks.MatchString(line):
			_, text, _ = strings.Cut(text, "\nEOF\n")
		case strings.HasPrefix(text, "--"):
			s.command(strings.TrimSuffix(strings.TrimSpace(line[2:]), ";"), path, depth)
			text = rest
		case control.MatchString(text):
			_, text, _ = strings.Cut(text, control.FindString(text))
		default:
			statement, after := s.cut(text)
			s.add(strings.TrimSpace(statement), path, depth)
			text = after
		}
	}
}

// lexeme matches what can contain a delimiter that ends nothing.
var lexeme = regexp.MustCompile("(?s)^(?:'(?:[^'\\\\]|\\\\.|'')*'|\"(?:[^\"\\\\]|\\\\.|\"\")*\"|`[^`]*`|/\\*.*?\\*/|--[ \t][^\n]*|#[^\n]*)")

// cut divides a text after its first statement.
func (s *script) cut(text string) (statement, rest string) {
	for n := 0; n < len(text); n++ {
		if strings.HasPrefix(text[n:], s.delimiter) {
			return text[:n], text[n+len(s.delimiter):]
		}
		if strings.IndexByte("'\"`/-#", text[n]) >= 0 {
			n += max(len(lexeme.FindString(text[n:]))-1, 0)
		}
	}
	return text, ""
}

// add appends a statement, or does what a command says.
func (s *script) add(statement, path string, depth int) {
	first, _, _ := strings.Cut(strings.ToLower(statement), " ")
	first, _, _ = strings.Cut(first, "\n")
	if first == "" {
		return
	}
	if slices.Contains(commands, first) || first == "delimiter" || first == "eval" {
		s.command(statement, path, depth)
		return
	}
	s.statements = append(s.statements, statement)
}

var (
	letCommand  = regexp.MustCompile(`(?is)^let\s+(\$\w+)\s*=\s*(.*)$`)
	withCommand = regexp.MustCompile(`(?is)^(delimiter|source|eval|send|query_vertical|query_horizontal)\s+(.*)$`)
)

func (s *script) command(text, path string, depth int) {
	if let := letCommand.FindStringSubmatch(text); let != nil {
		s.variables[let[1]] = s.expand(strings.Trim(let[2], "'"))
		return
	}
	found := withCommand.FindStringSubmatch(text)
	if found == nil {
		return
	}
	argument := strings.TrimSpace(found[2])
	switch strings.ToLower(found[1]) {
	case "delimiter":
		s.delimiter = strings.TrimSpace(strings.TrimSuffix(argument, s.delimiter))
		if s.delimiter == "" {
			s.delimiter = ";"
		}
	case "source":
		if argument = s.expand(argument); !unexpanded.MatchString(argument) {
			for _, dir := range []string{s.root, filepath.Dir(path), filepath.Dir(filepath.Dir(path)), filepath.Join(s.root, "suite")} {
				if _, err := os.Stat(filepath.Join(dir, argument)); err == nil {
					s.read(filepath.Join(dir, argument), depth+1)
					return
				}
			}
		}
	default:
		if statement := s.expand(argument); !strings.Contains(statement, "$") {
			s.statements = append(s.statements, statement)
		}
	}
}

// expand replaces the variables that are known.
func (s *script) expand(text string) string {
	return variable.ReplaceAllStringFunc(text, func(name string) string {
		if value, known := s.variables[name]; known && !strings.Contains(value, "`") {
			return value
		}
		return name
	})
}
