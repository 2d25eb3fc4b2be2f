package binlog

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestStatusVariables lists every status variable of statements that MySQL 9.7 and MariaDB 11.8 write, and says what
// becomes of it. It is what mysqlbinlog and mariadb-binlog print as SET, and what they read over.
func TestStatusVariables(t *testing.T) {
	t.Parallel()
	type set = map[string]string
	tests := map[byte]struct {
		value    string // without the code
		set      set
		harmless string // why
	}{
		0: {"\x00\x40\x00\x55", set{"sql_auto_is_null": "1", "foreign_key_checks": "0", "unique_checks": "1",
			"explicit_defaults_for_timestamp": "1", "sql_if_exists": "1", "system_versioning_insert_history": "1"}, ""},
		1:   {"\x04\x00\x00\x00\x01\x00\x00\x00", set{"sql_mode": "4294967300"}, ""},
		2:   {"\x03std\x00", nil, "MySQL 5.0.3 wrote the name of the catalog, of which there is one"},
		3:   {"\x0a\x00\x05\x00", set{"auto_increment_increment": "10", "auto_increment_offset": "5"}, ""},
		4:   {"\x21\x00\x2d\x00\xff\x00", set{"collation_connection": "45", "collation_server": "255"}, ""}, // and client
		5:   {"\x06+08:00", set{"time_zone": "_utf8mb4'+08:00'"}, ""},
		6:   {"\x03std", nil, "the catalog"},
		7:   {"\x04\x00", set{"lc_time_names": "4"}, ""},
		8:   {"\x08\x00", set{"collation_database": "8"}, ""},
		9:   {"\x03\x00\x00\x00\x00\x00\x00\x00", nil, "which tables an UPDATE changes, for filters of replicas"},
		10:  {"\x03\x00\x00\x00", nil, "the length of the event at the source, in relay logs"},
		11:  {"\x01u\x01%", nil, "the definer, who is the owner here"},
		12:  {"\x02a\x00bc\x00", nil, "the changed databases, for replicas that apply in parallel"},
		13:  {"\x40\x42\x0f", set{"timestamp": "1700000000.1000000"}, ""},
		16:  {"\x01", set{"explicit_defaults_for_timestamp": "1"}, ""},
		17:  {"\x03\x00\x00\x00\x00\x00\x00\x00", nil, "the transaction in which the source has changed its dictionary"},
		18:  {"\x2d\x00", set{"default_collation_for_utf8mb4": "45"}, ""},
		19:  {"\x01", nil, "sql_require_primary_key only refuses tables, and the source has not refused this one"},
		20:  {"\x01", nil, "default_table_encryption is about files, as the target's own settings are"},
		21:  {"\x01", nil, "enable_cascade_triggers is about rows, and the log has what triggers have changed"},
		128: {"\x01\x00\x00", set{"timestamp": "1700000000.000001"}, ""},
		129: {"\x03\x00\x00\x00\x00\x00\x00\x00", nil, "as 17"},
		130: {"\x04\x03\x00\x00\x00\x00\x00\x00\x00", nil, "the end of an ALTER TABLE of two phases, which is the one that is repeated"},
		131: {"\x01\x2d\x00\x2e\x00", nil, ""}, // the collations, below
	}
	for code := range 256 {
		test, known := tests[byte(code)]
		if !known {
			test.value = "\x00"
		}
		e := queryWith(string([]byte{byte(code)}) + test.value)
		q, err := e.query()
		if unsupported, _ := errors.AsType[*UnsupportedError](err); known == (err != nil) || !known && unsupported == nil {
			t.Errorf("%d: %v", code, err)
			continue
		}
		if !known {
			continue
		}
		want := set{"timestamp": "1700000000"}
		maps.Copy(want, test.set)
		assert.False(t, !maps.Equal(q.set, want) || test.set == nil && test.harmless == "" && code != 131,
			"%d sets %v instead of %v", code, q.set, want)
		assert.True(t, (code == 4) == (q.client == 33) &&
			(code == 131) == slices.Equal(q.collations, [][2]uint64{{45, 46}}) && !q.repeated, "%d: %+v", code, q)
		e = queryWith(string([]byte{byte(code)}) + test.value[:len(test.value)-1])
		_, err = e.query()
		assert.Error(t, err, "%d without its last byte: no error", code)
	}
	// Servers do not write them in the order of their codes.
	if q, err := queryWith("\x83\x00\x04\x21\x00\x2d\x00\xff\x00\x05\x06+08:00").query(); err != nil || q.client != 33 ||
		q.set["time_zone"] != "_utf8mb4'+08:00'" || q.text != "DROP TABLE t" || q.database != "db_a" {
		t.Errorf("in another order: %+v, %v", q, err)
	}
	for value, repeated := range map[string]bool{"\x82\x02": true, "\x82\x08\x03\x00\x00\x00\x00\x00\x00\x00": true, "\x82\x00": false} {
		q, err := queryWith(value).query()
		assert.True(t, err == nil && q.repeated == repeated, "%q: %+v, %v", value, q, err)
	}
}

// TestFlags has every flag of statements.
func TestFlags(t *testing.T) {
	t.Parallel()
	known := map[int]string{14: "sql_auto_is_null", 15: "check_constraint_checks", 19: "", 24: "explicit_defaults_for_timestamp",
		26: "foreign_key_checks", 27: "unique_checks", 28: "sql_if_exists", 30: "system_versioning_insert_history"}
	for bit := range 32 {
		q, err := queryWith("\x00" + string(binary.LittleEndian.AppendUint32(nil, 1<<bit))).query()
		name, ok := known[bit]
		unsupported, _ := errors.AsType[*UnsupportedError](err)
		assert.False(t, ok != (err == nil) || !ok && unsupported == nil, "bit %d: %v", bit, err)
		want := "1"
		if strings.HasSuffix(name, "_checks") {
			want = "0"
		}
		assert.False(t, name != "" && q.set[name] != want, "bit %d: %v", bit, q.set)
	}
}

func queryWith(variables string) event {
	body := binary.LittleEndian.AppendUint16([]byte{0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0}, uint16(len(variables)))
	return event{header: header{kind: queryEvent, when: 1_700_000_000}, body: []byte(string(body) + variables + "db_a\x00DROP TABLE t")}
}

// TestEvents knows every kind of event: what is not known is refused, not read over.
func TestEvents(t *testing.T) {
	t.Parallel()
	carriedOut := []byte{queryEvent, intVarEvent, randEvent, userVarEvent, formatEvent, xidEvent, tableMapEvent, gtidEvent,
		anonymousEvent, xaPrepareEvent, taggedGTIDEvent, mariaGTIDEvent}
	for kind := range 256 {
		_, rows := rowsEvents[byte(kind)]
		if rows || slices.Contains(carriedOut, byte(kind)) {
			continue
		}
		r := &Replay{}
		_, err := r.event(t.Context(), event{header: header{kind: byte(kind)}})
		unsupported, _ := errors.AsType[*UnsupportedError](err)
		assert.NotEqual(t, unsupported != nil, harmlessEvents[byte(kind)], "the kind %d: %v", kind, err)
		_, err = r.event(t.Context(), event{header: header{kind: byte(kind), flags: ignorable}})
		assert.NoError(t, err, "the kind %d, ignorable", kind)
	}
}

func TestRenamed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		mode       uint64
		text, want string
	}{
		{0, "CREATE TABLE t (a INT)", "CREATE TABLE t (a INT)"},
		{0, "CREATE TABLE db_a.t LIKE db_a . u", "CREATE TABLE db_b.t LIKE db_b . u"},
		{0, "CREATE TABLE `db_a`.`t` LIKE db_a/* of db_a.t */.u", "CREATE TABLE `db_b`.`t` LIKE db_b/* of db_a.t */.u"},
		{0, "DROP TABLE `db_a`.`unfinished db_a` -- `db_a`.t", "DROP TABLE `db_b`.`unfinished db_a` -- `db_a`.t"},
		{0, "DROP TABLE /*!50000 db_a.*/t, xdb_a.t, `db_a.t`", "DROP TABLE /*!50000 db_b.*/t, xdb_a.t, `db_a.t`"},

		{0, "CREATE TABLE db_a.t (a INT DEFAULT '`db_a`.`t`')", "CREATE TABLE db_b.t (a INT DEFAULT '`db_a`.`t`')"},
		{0, "CREATE TABLE t (a INT) COMMENT '\\' db_a.t `db_a`'", "CREATE TABLE t (a INT) COMMENT '\\' db_a.t `db_a`'"},
		{0, `CREATE VIEW v AS SELECT "db_a.t", "db_a"."x"`, `CREATE VIEW v AS SELECT "db_a.t", "db_a"."x"`},
		{ansiQuotes, `CREATE VIEW v AS SELECT "db_a"."t"."x", 'db_a.t'`, `CREATE VIEW v AS SELECT "db_b"."t"."x", 'db_a.t'`},
		{0, `CREATE VIEW v AS SELECT '\' FROM db_a.t`, `CREATE VIEW v AS SELECT '\' FROM db_a.t`},
		{noBackslashEscapes, `CREATE VIEW v AS SELECT '\' FROM db_a.t`, `CREATE VIEW v AS SELECT '\' FROM db_b.t`},

		{0, "CREATE TABLE db_a (db_a INT)", "CREATE TABLE db_a (db_a INT)"},
		{0, "ALTER TABLE db_a.db_a RENAME `db_a`", "ALTER TABLE db_b.db_a RENAME `db_a`"},
		{0, "CREATE VIEW v AS SELECT db_a.db_a.db_a FROM db_a", "CREATE VIEW v AS SELECT db_b.db_a.db_a FROM db_a"},
		{0, "CREATE PROCEDURE p() SET @db_a.x = 1", "CREATE PROCEDURE p() SET @db_a.x = 1"},

		{0, "ALTER DATABASE db_a COLLATE utf8mb4_bin", "ALTER DATABASE db_b COLLATE utf8mb4_bin"},
		{0, "drop schema if exists `db_a`", "drop schema if exists `db_b`"},
		{0, "CREATE DATABASE IF NOT EXISTS db_a", "CREATE DATABASE IF NOT EXISTS db_b"},
		{0, "CREATE TRIGGER x AFTER INSERT ON db_a.t FOR EACH ROW INSERT INTO db_a.u VALUES (1)",
			"CREATE TRIGGER x AFTER INSERT ON db_b.t FOR EACH ROW INSERT INTO db_b.u VALUES (1)"},
	} {
		assert.Equal(t, test.want, renamed(test.text, tokens(test.text, test.mode, utf8mb4), "db_a", "db_b"), test.text)
	}
	const sjis = 13
	for text, want := range map[string]string{
		"DROP TABLE \x83\x60, db_a.t":                     "DROP TABLE \x83\x60, db_b.t",
		"CREATE VIEW v SELECT '\x83\x5c.', db_a.t FROM t": "CREATE VIEW v SELECT '\x83\x5c.', db_b.t FROM t",
		"CREATE VIEW v SELECT '\xb1' FROM db_a.t, `\xb1`": "CREATE VIEW v SELECT '\xb1' FROM db_b.t, `\xb1`",
		"CREATE VIEW v SELECT '\x83' FROM db_a.t":         "CREATE VIEW v SELECT '\x83' FROM db_b.t",
	} {
		assert.Equal(t, want, renamed(text, tokens(text, 0, sjis), "db_a", "db_b"), "%q", text)
	}
}

func TestCommentsBefore(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"--\nDROP TABLE a\n, b":             "DROP TABLE a\n, b",
		"-- x\n--\n\n# x\nDROP TABLE a\n":   "DROP TABLE a\n",
		"/**/ DROP TABLE a /* x */, b":      "DROP TABLE a /* x */, b",
		"/***//* x */DROP TABLE a":          "DROP TABLE a",
		"/*M*//*My*//*\n*/DROP TABLE a -- ": "DROP TABLE a -- ",
		"/*!50000 DROP*/ TABLE a":           "/*!50000 DROP*/ TABLE a",
		"/*M!100100 DROP*/ TABLE a":         "/*M!100100 DROP*/ TABLE a",
	} {
		assert.Equal(t, want, comments.ReplaceAllString(text, ""), text)
	}
}

// TestStatements checks which database a statement changes, and that the account that runs it becomes the definer.
func TestStatements(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"CREATE USER u":                                      true,
		"create or replace user u":                           true,
		"GRANT ALL ON `db\\_a`.* TO u":                       true,
		"ALTER USER u ACCOUNT LOCK":                          true,
		"SET PASSWORD FOR u = 'x'":                           true,
		"FLUSH BINARY LOGS":                                  true,
		"CREATE TABLE users (a INT)":                         false,
		"CREATE TABLE grants (a INT)":                        false,
		"SET STATEMENT lock_wait_timeout=1 FOR DROP TABLE t": false,
		"DROP TABLE user":                                    false,
	} {
		assert.Equal(t, want, ofServer.MatchString(text), "%s: of the server", text)
	}
	for text, want := range map[string]string{
		"CREATE DEFINER=`a`@`%` PROCEDURE p() SELECT 'DEFINER=`b`@`%` '": "CREATE PROCEDURE p() SELECT 'DEFINER=`b`@`%` '",
		"CREATE ALGORITHM=UNDEFINED DEFINER=`a``b`@`%` SQL SECURITY DEFINER VIEW `v` AS SELECT 1": "CREATE " +
			"ALGORITHM=UNDEFINED SQL SECURITY DEFINER VIEW `v` AS SELECT 1",
		"CREATE OR REPLACE DEFINER = a@'%' TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET @a = 1": "CREATE OR REPLACE " +
			"TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET @a = 1",
		"ALTER DEFINER=`a`@`%` EVENT e DISABLE": "ALTER EVENT e DISABLE",
		"CREATE TABLE t (a INT)":                "CREATE TABLE t (a INT)",
	} {
		assert.Equal(t, want, definer.ReplaceAllString(text, "$1"), text)
	}
	for text, want := range map[string]string{
		"CREATE VIEW `a b` AS SELECT 1":                          "VIEW `a b`",
		"CREATE SQL SECURITY DEFINER VIEW v AS SELECT 1":         "VIEW v",
		"CREATE PROCEDURE IF NOT EXISTS `d`.`p`() SELECT 1":      "PROCEDURE `d`.`p`",
		"CREATE EVENT e ON SCHEDULE EVERY 1 HOUR DO SELECT 1":    "EVENT e",
		"CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1": "FUNCTION f",
	} {
		p := program.FindStringSubmatch(text)
		assert.True(t, p != nil && p[1]+" "+p[2] == want, "%s: %q", text, p)
	}
}
